"""The shapes of the six networks around the layers: convolutions with what follows each, then dense layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from tuner.problems.accuracy import F32
from tuner.problems.conv.layers import LAYERS, ConvLayer
from tuner.problems.conv.reference import float32_conv

Conv = Callable[[F32, F32], F32]
Activation = Literal["tanh", "relu", "none"]

CLASSES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A convolution, then its activation, then max-pooling of ``pool`` x ``pool`` with that stride (1: none)."""

    layer: ConvLayer
    activation: Activation = "none"
    pool: int = 1

    @property
    def key(self) -> str:
        """The layer's name within its network."""
        return self.layer.name.split("/")[1]

    @property
    def outputs(self) -> int:
        return self.layer.M * (self.layer.H_out // self.pool) * (self.layer.W_out // self.pool)

    def apply(self, x: F32, w: F32, conv: Conv = float32_conv) -> F32:
        y = conv(x, w)
        if self.activation == "tanh":
            y = np.tanh(y)
        elif self.activation == "relu":
            y = np.maximum(y, 0)
        return _max_pool(y, self.pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A network without its weights: stages, then dense layers with ReLU between, then softmax over ten classes.

    Attributes:
        hidden: Sizes of the dense layers before the last.
        course_accuracy: What the course's model of this shape scored on the 10,000 test images.
    """

    name: str
    stages: tuple[Stage, ...]
    hidden: tuple[int, ...] = ()
    course_accuracy: float

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every trained array, in the order of use."""
        shapes: dict[str, tuple[int, ...]] = {s.key: s.layer.w_shape for s in self.stages}
        inputs = self.stages[-1].outputs
        for i, size in enumerate((*self.hidden, CLASSES), start=1):
            shapes[f"dense{i}"], shapes[f"bias{i}"] = (size, inputs), (size,)
            inputs = size
        return shapes


def _max_pool(y: F32, pool: int) -> F32:
    """Take the maximum of ``pool`` x ``pool`` squares; rows and columns that fill none are left out."""
    height, width = (side // pool * pool for side in y.shape[2:])
    corners = (y[:, :, i:height:pool, j:width:pool] for i in range(pool) for j in range(pool))
    return reduce(np.maximum, corners)


def _architecture(name: str, course_accuracy: float, *stages: Stage, hidden: tuple[int, ...] = ()) -> Architecture:
    return Architecture(name=name, stages=stages, hidden=hidden, course_accuracy=course_accuracy)


def _stage(layer: str, activation: Activation = "none", pool: int = 1) -> Stage:
    return Stage(layer=LAYERS[layer], activation=activation, pool=pool)


ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        _architecture("fa17", 0.8562, _stage("fa17/conv1", "tanh", 2)),
        _architecture("sp18", 0.8451, _stage("sp18/conv1", "tanh", 2), _stage("sp18/conv2")),
        _architecture("fa18", 0.8171, _stage("fa18/conv1", "tanh", 2), _stage("fa18/conv2")),
        _architecture("sp19", 0.8397, _stage("sp19/conv1", "tanh", 2), _stage("sp19/conv2")),
        _architecture("fa19", 0.7653, _stage("fa19/conv1", "tanh", 2), _stage("fa19/conv2")),
        _architecture("fa20", 0.8714, _stage("fa20/conv1", "relu", 2), _stage("fa20/conv2", "relu", 4), hidden=(32,)),
    )
}
