"""The six networks around the layers: what feeds a layer, and the class agreement of a kernel, end to end."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UsageError
from tuner.problems.accuracy import F32
from tuner.problems.conv.architectures import ARCHITECTURES, Architecture, Conv, Stage
from tuner.problems.conv.dataset import Bytes, Dataset, load_test_split, resize_bilinear
from tuner.problems.conv.layers import FULL_BATCH, LAYERS, ConvLayer
from tuner.problems.conv.reference import float32_conv
from tuner.problems.problem import Problem
from tuner.problems.stock import DeviceArrays, Stock
from tuner.suggestions import alternatives

Ids = NDArray[np.int64]

WEIGHTS = Path(__file__).parent / "weights"
COUNTS = (10, 100, 1_000, 10_000)
CHUNK = 100  # images held at once by the CPU
SEED = 1708


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


def load_network(name: str) -> Network:
    """Load a network with its trained weights.

    Raises:
        UsageError: No such network, or its weight file is missing or damaged.
    """
    if name not in ARCHITECTURES:
        raise UsageError(f"network '{name}' is unknown; {alternatives(name, list(ARCHITECTURES))}")
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
        images: Resized as :func:`tuner.problems.conv.dataset.resize_bilinear` does; all are held at once.
        conv: Computes y from x and w; the CPU if None.
    """
    x = images[:, np.newaxis]
    for stage in network.architecture.stages:
        x = stage.apply(x, network.weights[stage.key], conv or float32_conv)
    return _dense(network, x)


def classify_from(network: Network, layer: str, y: F32, conv: Conv | None = None) -> Ids:
    """Classify what a layer's kernel has computed: the rest of the network.

    Shapes:
        y ``(B, M, H_out, W_out)`` of the layer named ``conv1`` or ``conv2``; result ``(B,)``.

    Args:
        conv: As in :func:`forward`.
    """
    stages = network.architecture.stages
    at = [stage.key for stage in stages].index(layer)
    x = stages[at].apply(y, network.weights[layer], lambda computed, _: computed)
    for stage in stages[at + 1 :]:
        x = stage.apply(x, network.weights[stage.key], conv or float32_conv)
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


def _stack(dataset: Dataset, which: Ids, layer: ConvLayer) -> F32:
    """Resize each image needed once, then stack channel c of image b from image (b + c) mod N."""
    ids = (which[:, np.newaxis] + np.arange(layer.C)) % len(dataset)
    needed, place = np.unique(ids, return_inverse=True)
    x: F32 = resize_bilinear(dataset.images[needed], layer.H, layer.W)[place.reshape(ids.shape)]
    return x


def has_network(problem: Problem) -> bool:
    """Tell whether a problem is a layer of one of the networks: a shape of the user's own is not."""
    return LAYERS.get(problem.name) == problem.with_rows(FULL_BATCH)


def network_stock(layer: ConvLayer, arrays: DeviceArrays, data: Path | None) -> Stock:
    """Return what the trained network feeds a layer: images, for a second layer through the first on the device.

    Raises:
        UsageError: The data set cannot be read.
    """
    dataset = load_test_split(data)
    w = layer_weights(layer)
    digest = hashlib.sha256(dataset.digest.encode() + w.tobytes()).hexdigest()
    before = stage_before(layer)
    if before is None:
        return Stock(host={"x": layer_input(layer, dataset), "w": w}, digest=digest)
    stage, w_before = before
    fed = stage.layer.with_batch(layer.B)
    x, y_before = arrays.allocated(layer.x_size), arrays.allocated(fed.y_size)
    inputs = {"x": arrays.uploaded(layer_input(fed, dataset)), "w": arrays.uploaded(w_before)}
    arrays.reference(fed, inputs | {"y": y_before})
    planes, flags = np.uint64(fed.B * fed.M), (np.int32(stage.pool), np.int32(stage.activation == "relu"))
    sides = np.int32(fed.H_out), np.int32(fed.W_out)
    arrays.run("activate_and_pool", layer.x_size, y_before, x, planes, *sides, *flags)
    return Stock(host={"w": w}, device={"x": x}, digest=digest)
