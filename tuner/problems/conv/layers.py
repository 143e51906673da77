"""What is computed: the course's convolution layers, by name, and layers of the user's own.

The convolution is forward, stride 1, without padding, square filter, no bias, float32, row-major::

    y[b][m][h][w] = sum over c, p, q of x[b][c][h + p][w + q] * w[m][c][p][q]

Letters are the course's. In cuDNN's words: B = N, M = K, K = R = S, H_out = P, W_out = Q.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UsageError
from tuner.problems.problem import CPU_SECONDS, FLOAT_BYTES, Arrays, LibraryCall, Problem, Tensor
from tuner.problems.stock import DeviceArrays, Stock
from tuner.suggestions import alternatives

if TYPE_CHECKING:
    from tuner.problems.whole import Agreement, Outputs

__all__ = ["DEFAULT_NETWORK", "FLOAT_BYTES", "FULL_BATCH", "LAYERS", "ConvLayer", "find_layer"]

DEFAULT_NETWORK = "sp18"
FULL_BATCH = 10_000
NAIVE = "naive 32x32 (B,M,1)"
CPU_PLAIN_FLOPS = 3.4e9  # what a naive kernel reaches on two cores
_DESCRIBED = re.compile(r"B=(\d+) C=(\d+) (\d+)x(\d+) -> M=(\d+) \d+x\d+, K=(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLayer(Problem):
    """One convolution, batch size included.

    Shapes:
        x is ``(B, C, H, W)``, w is ``(M, C, K, K)``, y is ``(B, M, H_out, W_out)``.

    Raises:
        UsageError: A size is not positive, or K is larger than the input; the message names the field.
    """

    kind: ClassVar[str] = "conv"
    noun: ClassVar[str] = "layer"
    SIZES: ClassVar[tuple[str, ...]] = ("B", "C", "H", "W", "M", "K")
    ROWS: ClassVar[str] = "B"
    ROWS_NOUN: ClassVar[str] = "images"
    ROWS_OPTION: ClassVar[str] = "--batch"
    MACRO: ClassVar[str] = "LAYER"
    ENTRY: ClassVar[str] = "conv_forward"
    ARGUMENTS: ClassVar[str] = "const float *x, const float *w, float *y, int B, int C, int H, int W, int M, int K"
    REFERENCE: ClassVar[str] = "conv/convolution.cu"
    RIVALS: ClassVar[tuple[str, ...]] = (NAIVE, "2017 final kernel")
    LIBRARY: ClassVar[LibraryCall | None] = LibraryCall(
        function="nn.functional.conv2d", library="cuDNN", layouts=("NCHW", "channels-last"), tf32="cudnn"
    )

    name: str
    B: int = FULL_BATCH
    C: int
    H: int
    W: int
    M: int
    K: int

    def __post_init__(self) -> None:
        for size in ("B", "C", "H", "W", "M", "K"):
            if getattr(self, size) < 1:
                raise UsageError(f"layer {self.name}: {size}={getattr(self, size)} is below 1; give a positive number")
        for side in ("H", "W"):
            if getattr(self, side) < self.K:
                raise UsageError(
                    f"layer {self.name}: K={self.K} is larger than the input's {side}={getattr(self, side)}; "
                    f"give K of at most {min(self.H, self.W)}"
                )

    @property
    def H_out(self) -> int:
        return self.H - self.K + 1

    @property
    def W_out(self) -> int:
        return self.W - self.K + 1

    @property
    def x_shape(self) -> tuple[int, int, int, int]:
        return self.B, self.C, self.H, self.W

    @property
    def w_shape(self) -> tuple[int, int, int, int]:
        return self.M, self.C, self.K, self.K

    @property
    def y_shape(self) -> tuple[int, int, int, int]:
        return self.B, self.M, self.H_out, self.W_out

    @property
    def reduction(self) -> int:
        """Terms summed for one output element: C*K*K."""
        return self.C * self.K * self.K

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        x = Tensor(
            name="x", shape=self.x_shape, axes=("b", "c", "h", "w"), dims=("B", "C", "H", "W"), rows=True, scaled=True
        )
        w = Tensor(
            name="w",
            shape=self.w_shape,
            axes=("m", "c", "p", "q"),
            dims=("M", "C", "K", "K"),
            columns=0,
            proportional=True,
            constant=True,
        )
        y = Tensor(
            name="y",
            shape=self.y_shape,
            axes=("b", "m", "h", "w"),
            dims=("B", "M", "H_out", "W_out"),
            rows=True,
            columns=1,
            output=True,
        )
        return x, w, y

    @property
    def terms(self) -> int:
        return self.reduction

    @property
    def y_size(self) -> int:
        return self.B * self.M * self.H_out * self.W_out

    @property
    def x_size(self) -> int:
        return self.B * self.C * self.H * self.W

    def with_batch(self, batch: int) -> ConvLayer:
        return self.with_rows(batch)

    def expected(self, arrays: Arrays) -> NDArray[np.float64]:
        from tuner.problems.conv.reference import reference_conv

        return reference_conv(arrays["x"], arrays["w"])

    def largest_norm(self, arrays: Arrays) -> float:
        w = arrays["w"]
        return float(np.linalg.norm(w.reshape(len(w), -1).astype(np.float64), axis=1).max())

    def stock(self, arrays: DeviceArrays, data: Path | None) -> Stock:
        from tuner.problems.conv.networks import network_stock

        return network_stock(self, arrays, data)

    @property
    def has_whole(self) -> bool:
        from tuner.problems.conv.networks import has_network

        return has_network(self)

    def agreement(self, outputs: Outputs, data: Path | None) -> Agreement:
        from tuner.problems.conv.agreement import class_agreement

        return class_agreement(self, outputs, data)

    @property
    def title(self) -> str:
        return f"{self.name} forward"

    def words(self) -> tuple[str, str]:
        sizes = ",".join(f"{size}={getattr(self, size)}" for size in "CHWMK")
        return f"--layer {self.name if '/' in self.name else sizes}", f"--batch {self.B}"

    def default_rows(self, device: str) -> int:
        """Return B: the whole test set on a GPU; on the CPU the round number whose naive launch stays near 50 ms."""
        if device != "cpu":
            return FULL_BATCH
        images = CPU_SECONDS * CPU_PLAIN_FLOPS / self.with_batch(1).flop
        rounds = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, FULL_BATCH)
        return max((size for size in rounds if size <= images), default=1)

    def describe(self) -> str:
        return f"B={self.B} C={self.C} {self.H}x{self.W} -> M={self.M} {self.H_out}x{self.W_out}, K={self.K}"

    @classmethod
    def described(cls, name: str, text: str) -> Self | None:
        if not (match := _DESCRIBED.fullmatch(text)):
            return None
        B, C, H, W, M, K = map(int, match.groups())
        return cls(name=name, B=B, C=C, H=H, W=W, M=M, K=K)


def _layer(name: str, C: int, side: int, M: int, K: int) -> ConvLayer:
    return ConvLayer(name=name, C=C, H=side, W=side, M=M, K=K)


LAYERS: dict[str, ConvLayer] = {
    layer.name: layer
    for layer in (
        _layer("fa17/conv1", 1, 28, 50, 5),
        _layer("sp18/conv1", 1, 64, 6, 5),
        _layer("sp18/conv2", 6, 30, 16, 5),
        _layer("fa18/conv1", 1, 72, 12, 7),
        _layer("fa18/conv2", 12, 33, 24, 7),
        _layer("sp19/conv1", 1, 48, 6, 5),
        _layer("sp19/conv2", 6, 22, 16, 5),
        _layer("fa19/conv1", 1, 70, 12, 5),
        _layer("fa19/conv2", 12, 33, 24, 5),
        _layer("fa20/conv1", 1, 86, 4, 7),
        _layer("fa20/conv2", 4, 40, 16, 7),
    )
}


def find_layer(text: str, batch: int | None = None) -> ConvLayer:
    """Find a layer by name (``conv2``, ``fa18/conv2``) or read a custom one (``"C=8,H=32,W=48,M=32,K=3"``).

    Args:
        text: In either case. ``conv1`` and ``conv2`` mean the default network's. In a custom shape W defaults to H and
            B to 10,000.
        batch: Replaces the layer's B when given.

    Raises:
        UsageError: No such layer (names a near one), or a size is missing, unknown, or out of range.
    """
    layer = _custom(text) if "=" in text else _named(text)
    return layer if batch is None else layer.with_batch(batch)


def is_layer(text: str) -> bool:
    """Whether :func:`find_layer` takes this for a layer: one of its names, or sizes."""
    return "@" not in text and ("=" in text or full_name(text) in LAYERS)


def full_name(text: str) -> str:
    """Return a layer's name with its network, in lower case: ``conv2`` is the default network's."""
    name = text.strip().lower()
    return name if "/" in name else f"{DEFAULT_NETWORK}/{name}"


def says_batch(text: str) -> bool:
    """Whether a layer's sizes say how many images a launch has."""
    return any(part.partition("=")[0].strip().upper() == "B" for part in text.split(",") if "=" in part)


def _named(text: str) -> ConvLayer:
    name = full_name(text)
    if name in LAYERS:
        return LAYERS[name]
    short = [each.removeprefix(f"{DEFAULT_NETWORK}/") for each in LAYERS if each.startswith(DEFAULT_NETWORK)]
    raise UsageError(
        f"layer '{text}' is unknown; give one that `tune layers` lists, or sizes such as C=8,H=32,W=48,M=32,K=3; "
        + alternatives(text, list(LAYERS), short)
    )


def _custom(text: str) -> ConvLayer:
    allowed = [field.name for field in fields(ConvLayer) if field.name != "name"]
    sizes: dict[str, int] = {}
    for part in text.split(","):
        given, _, value = (piece.strip() for piece in part.partition("="))
        key = given.upper()
        if key not in allowed:
            raise UsageError(f"layer '{text}': '{given}' is not a size; give {', '.join(allowed)}")
        if key in sizes:
            raise UsageError(f"layer '{text}': {key} is given twice; give it once")
        try:
            sizes[key] = int(value)
        except ValueError:
            raise UsageError(f"layer '{text}': {key}='{value}' is not a whole number; write {key}=5") from None
    sizes.setdefault("W", sizes.get("H", 0))
    missing = [key for key in allowed if key != "B" and key not in sizes]
    if missing:
        raise UsageError(f"layer '{text}': {', '.join(missing)} missing; write C=8,H=32,W=48,M=32,K=3")
    name = "".join(f"{key}{sizes[key]}" for key in allowed if key != "B")
    return ConvLayer(name=name, **sizes)
