"""The options of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.kernels.template import KernelTemplate
from tuner.problems.accuracy import Precision
from tuner.problems.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What to compare.

    Attributes:
        device: A resolved device name.
        study: The one study whose winner is compared; None: the fastest winner of all that fit.
        compiled: Also compare with ``torch.compile``'s autotuner.
    """

    problem: Problem
    device: str
    storage: str
    templates: tuple[KernelTemplate, ...]
    precision: Precision = "fp32"
    study: str | None = None
    compiled: bool = False
    data: Path | None = None
