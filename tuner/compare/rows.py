"""What is compared, and the results."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.bench.roofline import Roof
from tuner.kernels.configuration import Configuration
from tuner.problems.accuracy import Precision
from tuner.problems.problem import LibraryCall, Problem
from tuner.results import Environment, Measurement

CHANNELS_LAST = "channels-last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to run PyTorch's function: the layout and precision of its inputs on the device before it is timed."""

    library: str
    precision: Precision
    layout: str = ""
    compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.library} {self.precision.upper()} {self.layout}".rstrip()


def variants(call: LibraryCall, kind: str, compiled: bool) -> tuple[Variant, ...]:
    """Return PyTorch's contenders on a kind of device: its library in four precisions, FP32 on a CPU; in each layout.

    Args:
        compiled: Also ``torch.compile``'s autotuner, which picks formats itself.
    """
    on_gpu = kind == "cuda"
    precisions: tuple[Precision, ...] = ("fp32", "tf32", "fp16", "bf16") if on_gpu else ("fp32",)
    library = call.library if on_gpu else "PyTorch"
    eager = [
        Variant(library=library, precision=precision, layout=layout)
        for precision in precisions
        for layout in call.layouts
    ]
    if compiled:
        eager += [
            Variant(library="compile", precision=precision, layout=call.layouts[0], compiled=True)
            for precision in precisions
        ]
    return tuple(eager)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One contender's result.

    Attributes:
        layout: Order of the inputs; empty for kernels of ours, which read each row by row.
        ratio: Its time over ours, round by round; None for ours and for what was not timed.
        max_error: Largest absolute error on any element of the whole batch; None when it was not reached.
        relative_error: The same relative to the output's range.
        tolerance: What its precision allows a correct kernel, absolute.
        failure: Why it has no time, in one line; empty if it has.
    """

    name: str
    precision: Precision
    layout: str = ""
    configuration: Configuration | None = None
    measurement: Measurement | None = None
    ratio: Measurement | None = None
    max_error: float | None = None
    relative_error: float | None = None
    tolerance: float | None = None
    failure: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether its error is within its precision's tolerance; None where either is not known."""
        if self.max_error is None or self.tolerance is None:
            return None
        return self.max_error <= self.tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All rows, ours first; and PyTorch's versions, or nothing if a row says why it is missing.

    Attributes:
        roof: The problem's floor by the precision's own peak: multiply-adds for FP32.
        own_roof: The floor for our configuration's operands: that of tensor cores for a template that uses them.
    """

    problem: Problem
    precision: Precision
    environment: Environment
    study: str
    trial: int | None
    rows: tuple[Row, ...]
    roof: Roof | None
    own_roof: Roof | None
    pytorch: str
    notes: tuple[str, ...] = ()

    @property
    def ours(self) -> Row:
        return self.rows[0]
