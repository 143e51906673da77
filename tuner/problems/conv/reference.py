"""The reference convolution on the CPU, in float64 and float32."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tuner.errors import TunerError
from tuner.problems.accuracy import F32, F64, Floats, blocks


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


def _convolve(x: Floats, w: Floats, y: Floats) -> None:
    """Unroll a block of images into patches, then multiply in y's own type.

    One product a block: small products, one an image, lose 20 times more to BLAS threads that wait on a busy machine.
    """
    M, C, K, _ = w.shape
    H_out, W_out = y.shape[2:]
    filters = w.astype(y.dtype).reshape(M, -1)
    for block in blocks(len(x), y.dtype.itemsize * C * K * K * H_out * W_out):
        windows = sliding_window_view(x[block].astype(y.dtype), (K, K), axis=(2, 3))
        patches = windows.transpose(1, 4, 5, 0, 2, 3).reshape(C * K * K, -1)
        y[block] = (filters @ patches).reshape(M, -1, H_out, W_out).swapaxes(0, 1)


def _y_shape(x: Floats, w: Floats) -> tuple[int, int, int, int]:
    (B, C, H, W), (M, C_w, K, K_w) = x.shape, w.shape
    if (C_w, K_w) != (C, K) or min(H, W) < K:
        raise TunerError(f"x {x.shape} and w {w.shape} do not fit; give x (B, C, H, W) and w (M, C, K, K), K <= H, W")
    return B, M, H - K + 1, W - K + 1
