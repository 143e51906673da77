"""The roofline: the least time a problem can take on a device, and which of the device's ceilings sets it.

The arithmetic ceiling depends on what multiplies: FP32 multiply-adds, or tensor cores with one, two or three products
for each of the problem's. Tensor cores' peaks are those of ``mma.sync`` or ``wgmma``; bytes are those of FP32 tensors
in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.kernels.configuration import Configuration
from tuner.kernels.parameters import Choice
from tuner.problems.problem import Problem
from tuner.results import Environment, Result

MEMORY, FMA, TENSOR = "memory", "FMA", "tensor cores"
MMA_TYPE = "MMA_TYPE"  # the parameter by which a template says what its tensor cores multiply
FORMERLY = "OPERANDS"  # as users' templates may still call it
_NAME = re.compile(r"(tf32|fp16|bf16)(?:x(\d))?")  # fp16x3: a number in two FP16, three products for each of FP32's
_ROUNDING = ("fp32", "tf32", "fp16", "bf16")  # from the closest on


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A problem's bound on a device.

    Attributes:
        seconds: No kernel with these operands is faster.
        wall: The ceiling that sets it: memory, FMA or tensor cores.
    """

    seconds: float
    wall: str

    def share(self, seconds: float) -> float:
        """Return roof / seconds: 1.0 is as fast as the device allows."""
        return self.seconds / seconds


def roof(problem: Problem, environment: Environment, operands: str = "fp32") -> Roof | None:
    """Return the bound: the larger of fewest bytes at the memory's rate and FLOP at the operands' peak.

    None while the device's ceilings are not known.

    Args:
        operands: ``fp32`` for multiply-adds, else ``tf32``, ``fp16x3``: see ``products_of``. Without tensor cores all
            are multiply-adds.
    """
    rate, (flops, wall) = environment.peak_bytes, _arithmetic(environment, operands)
    if not flops or not rate:
        return None
    by_memory, by_arithmetic = problem.least_bytes / rate, problem.flop / flops
    return Roof(seconds=max(by_memory, by_arithmetic), wall=MEMORY if by_memory >= by_arithmetic else wall)


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What times of a problem on a device are compared with.

    Attributes:
        precision: Of the study.
        naive: Seconds of the naive baseline; None while it was not measured.
    """

    problem: Problem
    environment: Environment
    precision: str = "fp32"
    naive: float | None = None

    @property
    def roof(self) -> Roof | None:
        """The problem's bound by the precision's own peak, or None while the device's ceilings are not known."""
        return roof(self.problem, self.environment, self.precision)

    def roof_of(self, result: Result) -> Roof | None:
        """Return the bound of what this configuration multiplies."""
        return roof(self.problem, self.environment, operands_of(result.configuration))

    def share_of_roof(self, result: Result) -> float | None:
        """Return its bound over its time: 1.0 is as fast as the device allows with these operands."""
        bound = self.roof_of(result)
        return bound.share(result.seconds) if bound and result.ok else None

    def times_naive(self, result: Result) -> float | None:
        """Return how many times as fast as the naive baseline it is."""
        return self.naive / result.seconds if self.naive else None


def products_of(operands: str) -> tuple[str, int] | None:
    """Return what tensor cores multiply and how often for each of the problem's products; None for multiply-adds.

    ``tf32`` is one product of TF32 numbers, ``fp16x3`` three of the FP16 halves that an FP32 number is split into.
    """
    match = _NAME.fullmatch(operands)
    return (match[1], int(match[2] or 1)) if match else None


def exact_enough(operands: str, precision: str) -> bool:
    """Whether a study of this precision may multiply these operands; split numbers are as close as FP32."""
    kind, products = products_of(operands) or ("fp32", 1)
    return products > 1 or _ROUNDING.index(kind) <= _ROUNDING.index(precision)


def _arithmetic(environment: Environment, operands: str) -> tuple[float | None, str]:
    kind, products = products_of(operands) or ("fp32", 1)
    peak = {"tf32": environment.peak_tf32, "fp16": environment.peak_fp16, "bf16": environment.peak_fp16}.get(kind)
    return (peak / products, TENSOR) if peak else (environment.peak_flops, FMA)


def operands_of(configuration: Configuration) -> str:
    """Return what a configuration multiplies: its template's ``MMA_TYPE``, or FP32 by multiply-adds."""
    given = configuration.as_dict()
    chosen = str(given.get(MMA_TYPE, given.get(FORMERLY, "fp32")))
    return chosen if products_of(chosen) else "fp32"


def least_roof(
    problem: Problem, environment: Environment, precision: str, choices: Iterable[Choice] = ()
) -> Roof | None:
    """Return the lowest bound of what a study may multiply: FP32, and those of ``choices`` that are exact enough."""
    named = [str(choice) for choice in choices if products_of(str(choice)) and exact_enough(str(choice), precision)]
    roofs = [each for name in ("fp32", *named) if (each := roof(problem, environment, name))]
    return min(roofs, key=lambda each: each.seconds, default=None)
