"""What is right: the reference convolution, how far a kernel may stray from it, and the comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tuner.errors import TunerError, UsageError
from tuner.layers import ConvLayer

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]

FP32_ROUNDOFF = 2.0**-24
INPUT_ROUNDOFF: dict[str, float] = {"fp32": 0.0, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
UNITS = 8  # that a kernel may err by, in errors of a plain FP32 kernel
BLOCK_BYTES = 32 << 20  # unrolled images held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome of one element-wise comparison.

    Attributes:
        wrong: Elements off by more than the tolerance, NaN or infinite.
        max_abs_error: The largest error; infinite if an element is NaN or infinite.
        max_rel_error: The same relative to the reference's range, zero included.
        first_wrong: Index ``(b, m, h, w)`` of the first wrong element in memory order.
    """

    wrong: int
    max_abs_error: float
    max_rel_error: float
    first_wrong: tuple[int, int, int, int] | None

    @property
    def ok(self) -> bool:
        return self.wrong == 0


def reference_conv(x: Floats, w: Floats) -> F64:
    """Convolve in float64.

    Shapes:
        x ``(B, C, H, W)``, w ``(M, C, K, K)``, result ``(B, M, H-K+1, W-K+1)``.
    """
    y = np.empty(_y_shape(x, w), np.float64)
    _convolve(x, w, y)
    return y


def float32_conv(x: F32, w: F32) -> F32:
    """Convolve in float32 on the CPU, for feeding layers and for class ids; shapes as :func:`reference_conv`."""
    y = np.empty(_y_shape(x, w), np.float32)
    _convolve(x, w, y)
    return y


def largest_unit(error: float, y_max: float) -> float:
    """Return the unit of errors: a plain FP32 kernel's largest, at least the last digit of the largest result."""
    return max(error, FP32_ROUNDOFF * y_max)


def tolerance(layer: ConvLayer, w: F32, x_max: float, precision: Precision = "fp32", unit: float = math.inf) -> float:
    """Bound a correct kernel's absolute error on any output element.

    It is ``UNITS`` times the largest error that a plain FP32 kernel makes on the same inputs, plus what rounding the
    operands adds, and never more than a bound that holds for all inputs.

    With n = C*K*K terms, X = max|x| and V = max over m of ||w_m||_2, the result is ``2 * X * V * (u32*n + u*sqrt(n))``,
    u32 = 2^-24, and u the unit roundoff that x and w are rounded to first (fp32: 0; tf32, fp16: 2^-11; bf16: 2^-8).

    Summing n terms in any order errs by at most ``gamma_n`` times S = sum|x_i w_i|; ``2 * sqrt(n) * u32`` in place of
    ``gamma_n`` holds in all but a vanishing share of cases, since roundings partly cancel. Rounding both operands first
    adds at most ``2 * u * S``. By Cauchy-Schwarz ``S <= ||x||_2 ||w_m||_2 <= sqrt(n) * X * V``: the formula follows.
    Sums are taken to be kept in float32; kept in half precision they would err about sqrt(n) times more.

    Args:
        layer: Gives n.
        w: The filter bank.
        x_max: max|x|.
        precision: What the operands are rounded to, to nearest, before they are multiplied.
        unit: The largest error of a plain FP32 kernel on these inputs, see :func:`largest_unit`.

    Raises:
        UsageError: The precision is unknown, or x or w is not finite.

    Source:
        N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 3.1 (gamma_n); N. Higham, T. Mary,
        A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019 (sqrt(n)).
    """
    if precision not in INPUT_ROUNDOFF:
        raise UsageError(f"precision '{precision}' is unknown; give one of {', '.join(INPUT_ROUNDOFF)}")
    n = layer.reduction
    norm = float(np.linalg.norm(w.reshape(len(w), -1).astype(np.float64), axis=1).max())
    rounding = 2 * x_max * norm * INPUT_ROUNDOFF[precision] * math.sqrt(n)
    bound = min(2 * x_max * norm * FP32_ROUNDOFF * n, UNITS * unit) + rounding
    if not math.isfinite(bound):
        raise UsageError(f"layer {layer.name}: max|x|={x_max}, max||w||={norm}; give finite x and w")
    return bound


def compare(y: Floats, y_ref: Floats, atol: float) -> Comparison:
    """Compare every element of a kernel's output with the reference.

    Shapes:
        y and y_ref ``(B, M, H_out, W_out)``.

    Raises:
        TunerError: The shapes differ, the reference is not finite, or the tolerance is not a finite positive number:
            then nothing could be said of y.
    """
    if y.shape != y_ref.shape:
        raise TunerError(f"output shape {y.shape} differs from the reference's {y_ref.shape}; compare one layer's")
    if not 0 <= atol < math.inf:
        raise TunerError(f"tolerance {atol} is not a finite number of at least 0; see tuner.reference.tolerance")
    wrong, worst, low, high, first = 0, 0.0, 0.0, 0.0, None
    for block in _blocks(len(y), 8 * math.prod(y.shape[1:])):
        want = y_ref[block].astype(np.float64)
        if not np.isfinite(want).all():
            raise TunerError(f"the reference is not finite in images {block.start} to {block.stop - 1}; correct x or w")
        low, high = min(low, float(want.min())), max(high, float(want.max()))
        error = np.nan_to_num(np.abs(y[block] - want), nan=math.inf, posinf=math.inf)
        worst = max(worst, float(error.max()))
        bad = np.argwhere(error > atol)
        wrong += len(bad)
        if first is None and len(bad):
            b, m, h, w = bad[0].tolist()
            first = (block.start + b, m, h, w)
    relative = 0.0 if worst == 0 else worst / (high - low) if high > low else math.inf
    return Comparison(wrong=wrong, max_abs_error=worst, max_rel_error=relative, first_wrong=first)


def _convolve(x: Floats, w: Floats, y: Floats) -> None:
    """Unroll a block of images into patches, then multiply in y's own type.

    One product a block: small products, one an image, lose 20 times more to BLAS threads that wait on a busy machine.
    """
    M, C, K, _ = w.shape
    H_out, W_out = y.shape[2:]
    filters = w.astype(y.dtype).reshape(M, -1)
    for block in _blocks(len(x), y.dtype.itemsize * C * K * K * H_out * W_out):
        windows = sliding_window_view(x[block].astype(y.dtype), (K, K), axis=(2, 3))
        patches = windows.transpose(1, 4, 5, 0, 2, 3).reshape(C * K * K, -1)
        y[block] = (filters @ patches).reshape(M, -1, H_out, W_out).swapaxes(0, 1)


def _y_shape(x: Floats, w: Floats) -> tuple[int, int, int, int]:
    (B, C, H, W), (M, C_w, K, K_w) = x.shape, w.shape
    if (C_w, K_w) != (C, K) or min(H, W) < K:
        raise TunerError(f"x {x.shape} and w {w.shape} do not fit; give x (B, C, H, W) and w (M, C, K, K), K <= H, W")
    return B, M, H - K + 1, W - K + 1


def _blocks(count: int, bytes_each: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // bytes_each)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
