"""The six networks around the layers: what feeds a layer, and the class agreement of a kernel, end to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tuner.dataset import Bytes, Dataset, resize_bilinear
from tuner.errors import UsageError
from tuner.layers import FULL_BATCH, LAYERS, ConvLayer
from tuner.reference import F32, float32_conv

Conv = Callable[[F32, F32], F32]
Activation = Literal["tanh", "relu", "none"]
Ids = NDArray[np.int64]

WEIGHTS = Path(__file__).parent / "weights"
CLASSES = 10
COUNTS = (10, 100, 1_000, 10_000)
CHUNK = 100  # images held at once by the CPU
SEED = 1708


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """An architecture with its trained weights.

    Attributes:
        weights: float32 arrays under the names of :attr:`Architecture.shapes`.
        correct: How many of the first 10, 100, 1,000 and 10,000 test images it classified rightly when trained.
    """

    architecture: Architecture
    weights: Mapping[str, F32]
    correct: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How many of the first ``images`` images got their right class."""

    images: int
    correct: int

    @property
    def fraction(self) -> float:
        return self.correct / self.images


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


def load_network(name: str) -> Network:
    """Load a network with its trained weights.

    Raises:
        UsageError: No such network, or its weight file is missing or damaged.
    """
    if name not in ARCHITECTURES:
        raise UsageError(f"network '{name}' is unknown; there are: {', '.join(ARCHITECTURES)}")
    return read_network(ARCHITECTURES[name], WEIGHTS / f"{name}.npz")


def read_network(architecture: Architecture, path: Path) -> Network:
    """Read the weights of an architecture from an npz file.

    Raises:
        UsageError: The file cannot be read, or an array is missing or of another shape or type.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in (*architecture.shapes, "correct")}
    except Exception as error:  # a damaged npz raises any of a dozen kinds, from zipfile, zlib, tokenize and NumPy
        raise UsageError(f"{path}: no weights of {architecture.name} ({error}); reinstall tuner") from None
    correct = tuple(int(count) for count in arrays.pop("correct"))
    for key, shape in architecture.shapes.items():
        if arrays[key].shape != shape or arrays[key].dtype != np.float32:
            raise UsageError(f"{path}: {key} is {arrays[key].dtype} {arrays[key].shape}, expected float32 {shape}")
    return Network(architecture=architecture, weights=arrays, correct=correct)


def forward(network: Network, images: F32, conv: Conv | None = None) -> F32:
    """Compute the class scores before softmax, which leaves their order as it is.

    Shapes:
        images ``(B, H, W)`` in [0, 1], of the first layer's size; result ``(B, 10)``.

    Args:
        network: Whose weights.
        images: Resized as :func:`tuner.dataset.resize_bilinear` does; all are held at once.
        conv: Computes y from x and w; the CPU if None.
    """
    x = images[:, np.newaxis]
    for stage in network.architecture.stages:
        x = stage.apply(x, network.weights[stage.key], conv or float32_conv)
    return _dense(network, x)


def classify_from(network: Network, layer: str, y: F32) -> Ids:
    """Classify what a layer's kernel has computed: the rest of the network, on the CPU.

    Shapes:
        y ``(B, M, H_out, W_out)`` of the layer named ``conv1`` or ``conv2``; result ``(B,)``.
    """
    stages = network.architecture.stages
    at = [stage.key for stage in stages].index(layer)
    x = stages[at].apply(y, network.weights[layer], lambda computed, _: computed)
    for stage in stages[at + 1 :]:
        x = stage.apply(x, network.weights[stage.key])
    ids: Ids = _dense(network, x).argmax(axis=1)
    return ids


def _dense(network: Network, x: F32) -> F32:
    x = x.reshape(len(x), -1)
    for i in range(1, len(network.architecture.hidden) + 2):
        x = x if i == 1 else np.maximum(x, 0)
        x = x @ network.weights[f"dense{i}"].T + network.weights[f"bias{i}"]
    return x


def classify(network: Network, images: Bytes, conv: Conv | None = None, chunk: int = CHUNK) -> Ids:
    """Classify images as they come from the data set.

    Args:
        network: Which network.
        images: ``(N, h, w)`` uint8, resized here.
        conv: As in :func:`forward`.
        chunk: Images a call of ``conv`` gets; the last call gets the rest.
    """
    first = network.architecture.stages[0].layer
    parts = (images[start : start + chunk] for start in range(0, len(images), chunk))
    scores = [forward(network, resize_bilinear(part, first.H, first.W), conv) for part in parts]
    ids: Ids = np.concatenate(scores).argmax(axis=1)
    return ids


def accuracy(
    network: Network, dataset: Dataset, counts: tuple[int, ...] = COUNTS, conv: Conv | None = None, chunk: int = CHUNK
) -> tuple[Accuracy, ...]:
    """Count right classes among the first images, for each count (at most the data set's size)."""
    within = sorted({min(count, len(dataset)) for count in counts})
    ids = classify(network, dataset.images[: within[-1]], conv, chunk)
    right = ids == dataset.labels[: within[-1]]
    return tuple(Accuracy(images=count, correct=int(right[:count].sum())) for count in within)


def layer_weights(layer: ConvLayer) -> F32:
    """Return a layer's trained filter bank; for a custom layer, seeded normal numbers / sqrt(C*K*K).

    Shapes:
        ``(M, C, K, K)`` float32.
    """
    if has_network(layer):
        network, name = layer.name.split("/")
        return load_network(network).weights[name]
    w = np.random.default_rng(SEED).standard_normal(layer.w_shape, np.float32)
    return w / np.float32(np.sqrt(layer.reduction))


def layer_input(layer: ConvLayer, dataset: Dataset, images: int | slice | None = None) -> F32:
    """Return what a layer reads: its network's images, or those passed through the stage before it.

    For a custom layer, channel c of image b is image ``(b + c) mod N`` of the data set, so that channels differ.
    Images wrap around when B exceeds N.

    Shapes:
        ``(n, C, H, W)`` float32, n = B without ``images``.

    Args:
        layer: Named or custom.
        dataset: Where the images come from.
        images: Which of the B images: a count from the first, or a slice; all if None.
    """
    which = np.arange(layer.B)[images if isinstance(images, slice) else slice(images)]
    x = np.empty((len(which), *layer.x_shape[1:]), np.float32)
    before = stage_before(layer)
    for start in range(0, len(which), CHUNK):
        part = slice(start, start + CHUNK)
        if before is None:
            x[part] = _stack(dataset, which[part], layer)
        else:
            stage, w = before
            x[part] = stage.apply(_stack(dataset, which[part], stage.layer), w)
    return x


def stage_before(layer: ConvLayer) -> tuple[Stage, F32] | None:
    """Return the stage whose output a layer reads, with its trained filter bank; None if it reads images."""
    if not has_network(layer):
        return None
    name, key = layer.name.split("/")
    stages = ARCHITECTURES[name].stages
    at = [stage.key for stage in stages].index(key)
    return (stages[at - 1], load_network(name).weights[stages[at - 1].key]) if at else None


def _max_pool(y: F32, pool: int) -> F32:
    """Take the maximum of ``pool`` x ``pool`` squares; rows and columns that fill none are left out."""
    height, width = (side // pool * pool for side in y.shape[2:])
    corners = (y[:, :, i:height:pool, j:width:pool] for i in range(pool) for j in range(pool))
    return reduce(np.maximum, corners)


def _stack(dataset: Dataset, which: Ids, layer: ConvLayer) -> F32:
    """Resize each image needed once, then stack channel c of image b from image (b + c) mod N."""
    ids = (which[:, np.newaxis] + np.arange(layer.C)) % len(dataset)
    needed, place = np.unique(ids, return_inverse=True)
    x: F32 = resize_bilinear(dataset.images[needed], layer.H, layer.W)[place.reshape(ids.shape)]
    return x


def has_network(layer: ConvLayer) -> bool:
    """Tell whether a layer belongs to one of the networks: a shape of the user's own does not."""
    return LAYERS.get(layer.name) == layer.with_batch(FULL_BATCH)
