"""How far a kernel may stray from the right result, and the comparison of whole outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tuner.errors import TunerError, UsageError
from tuner.problems.problem import Problem

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]

FP32_ROUNDOFF = 2.0**-24
INPUT_ROUNDOFF: dict[str, float] = {"fp32": 0.0, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
UNITS = 8  # that a kernel may err by, in errors of a plain FP32 kernel
BLOCK_BYTES = 32 << 20  # of an output compared at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome of one element-wise comparison.

    Attributes:
        wrong: Elements off by more than the tolerance, NaN or infinite.
        max_abs_error: The largest error; infinite if an element is NaN or infinite.
        max_rel_error: The same relative to the reference's range, zero included.
        first_wrong: Index of the first wrong element in memory order.
    """

    wrong: int
    max_abs_error: float
    max_rel_error: float
    first_wrong: tuple[int, ...] | None

    @property
    def ok(self) -> bool:
        return self.wrong == 0


def largest_unit(error: float, y_max: float) -> float:
    """Return the unit of errors: a plain FP32 kernel's largest, at least the last digit of the largest result."""
    return max(error, FP32_ROUNDOFF * y_max)


def tolerance(
    problem: Problem, norm: float, x_max: float, precision: Precision = "fp32", unit: float = math.inf
) -> float:
    """Bound a correct kernel's absolute error on any output element.

    It is ``UNITS`` times the largest error that a plain FP32 kernel makes on the same inputs, plus what rounding the
    operands adds, and never more than a bound that holds for all inputs.

    With n terms x_i w_i of an element, X = max|x_i| and V the largest ||w||_2, the result is
    ``2 * X * V * (u32*n + u*sqrt(n))``, u32 = 2^-24, and u the unit roundoff that x and w are rounded to first
    (fp32: 0; tf32, fp16: 2^-11; bf16: 2^-8).

    Summing n terms in any order errs by at most ``gamma_n`` times S = sum|x_i w_i|; ``2 * sqrt(n) * u32`` in place of
    ``gamma_n`` holds in all but a vanishing share of cases, since roundings partly cancel. Rounding both operands first
    adds at most ``2 * u * S``. By Cauchy-Schwarz ``S <= ||x||_2 ||w||_2 <= sqrt(n) * X * V``: the formula follows.
    Sums are taken to be kept in float32; kept in half precision they would err about sqrt(n) times more.

    Args:
        problem: Gives n.
        norm: V, see :meth:`tuner.problems.problem.Problem.largest_norm`.
        x_max: X, of the scaled tensor.
        precision: What the operands are rounded to, to nearest, before they are multiplied.
        unit: The largest error of a plain FP32 kernel on these inputs, see :func:`largest_unit`.

    Raises:
        UsageError: The precision is unknown, or an input is not finite.

    Source:
        N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 3.1 (gamma_n); N. Higham, T. Mary,
        A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019 (sqrt(n)).
    """
    if precision not in INPUT_ROUNDOFF:
        raise UsageError(f"precision '{precision}' is unknown; give one of {', '.join(INPUT_ROUNDOFF)}")
    n = problem.terms
    rounding = 2 * x_max * norm * INPUT_ROUNDOFF[precision] * math.sqrt(n)
    bound = min(2 * x_max * norm * FP32_ROUNDOFF * n, UNITS * unit) + rounding
    if not math.isfinite(bound):
        raise UsageError(f"{problem.noun} {problem.name}: inputs reach {x_max} and {norm}; give finite ones")
    return bound


def compare(y: Floats, y_ref: Floats, atol: float) -> Comparison:
    """Compare every element of a kernel's output with the reference.

    Raises:
        TunerError: The shapes differ, the reference is not finite, or the tolerance is not a finite positive number:
            then nothing could be said of y.
    """
    if y.shape != y_ref.shape:
        raise TunerError(f"output shape {y.shape} differs from the reference's {y_ref.shape}; compare one problem's")
    if not 0 <= atol < math.inf:
        raise TunerError(f"tolerance {atol} is not a finite number of at least 0; see accuracy.tolerance")
    wrong, worst, low, high, first = 0, 0.0, 0.0, 0.0, None
    for block in blocks(len(y), 8 * math.prod(y.shape[1:])):
        want = y_ref[block].astype(np.float64)
        if not np.isfinite(want).all():
            raise TunerError(f"the reference is not finite in rows {block.start} to {block.stop - 1}; give finite data")
        low, high = min(low, float(want.min())), max(high, float(want.max()))
        error = np.nan_to_num(np.abs(y[block] - want), nan=math.inf, posinf=math.inf)
        worst = max(worst, float(error.max()))
        bad = np.argwhere(error > atol)
        wrong += len(bad)
        if first is None and len(bad):
            row, *rest = bad[0].tolist()
            first = (block.start + row, *rest)
    relative = 0.0 if worst == 0 else worst / (high - low) if high > low else math.inf
    return Comparison(wrong=wrong, max_abs_error=worst, max_rel_error=relative, first_wrong=first)


def blocks(count: int, bytes_each: int) -> Iterator[slice]:
    """Cut so many rows into slices of some megabytes."""
    step = max(1, BLOCK_BYTES // bytes_each)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
