"""What a header is made of: a measured configuration, and where and how it was measured."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuner.kernels.limits import CUDA, OPENCL, Dialect
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem
from tuner.results import Environment, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A measured configuration with everything a header says about it.

    Attributes:
        command: The command line that measures it again.
        tolerance: Largest absolute error allowed by the check, if known.
        unit: The largest error of a plain FP32 kernel on the same inputs, if known.
        naive_seconds: Median of the naive baseline measured in the same study, if there is one.
        precision: What factors may have been rounded to.
        options: What OpenCL's compiler must be given for the same numbers; empty for CUDA.
        file: The header's own file name, for its example.
    """

    result: Result
    problem: Problem
    environment: Environment
    template: KernelTemplate
    study: str
    trial: int
    command: str
    tolerance: float | None = None
    unit: float | None = None
    naive_seconds: float | None = None
    options: str = ""
    file: str = ""
    precision: str = "fp32"

    @property
    def dialect(self) -> Dialect:
        return CUDA if self.environment.kind == CUDA else OPENCL

    @property
    def prefix(self) -> str:
        """The start of every name of the header: ``SP18_CONV2_FP32_B10000_SM90A``, a user's own template before it.

        So headers of two precisions, batches or architectures can be in one program.
        """
        arch = self.environment.arch if self.dialect == CUDA else self.environment.kind
        own = [self.template.name] if self.template.home else []
        rows = f"{self.problem.ROWS}{self.problem.rows}"
        parts = (*own, self.problem.name, self.precision, rows, arch.replace("_", ""))
        name = re.sub(r"\W+", "_", "_".join(parts), flags=re.ASCII).upper()
        return name if name[0].isalpha() else f"{self.problem.kind.upper()}_{name}"

    @property
    def entry(self) -> str:
        return f"{self.prefix.lower()}_forward"
