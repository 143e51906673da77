"""End to end: does a network give images the same classes when a configuration computes one of its layers?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tuner.bench.inputs import AS_IN_STOCK
from tuner.problems.accuracy import F32
from tuner.problems.conv.dataset import load_test_split
from tuner.problems.conv.layers import FLOAT_BYTES, ConvLayer
from tuner.problems.conv.networks import Ids, classify_from, load_network

if TYPE_CHECKING:
    from tuner.bench.bench import Bench
    from tuner.bench.trial import Trial
    from tuner.devices import Buffer

CHUNK = 250  # images held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Classes of the images of a batch, by the configuration and by the FP32 reference kernel.

    Attributes:
        images: How many were classified.
        same: How many got the same class from both.
        correct, correct_fp32: How many got their right class, from the configuration and from the reference.
    """

    images: int
    same: int
    correct: int
    correct_fp32: int

    def __str__(self) -> str:
        return (
            f"class agreement with the FP32 network: {self.same:,} of {self.images:,} images; "
            f"accuracy {self.correct / self.images:.4f}, FP32 {self.correct_fp32 / self.images:.4f}"
        )


def agreement_of(trial: Trial, data: Path | None) -> Agreement:
    """Run a configuration once, and classify its output and the reference's.

    A convolution after it is the reference kernel's; pooling and dense layers run on the CPU.

    Raises:
        WrongResult, TimedOut, Crashed: As the configuration deserves.
    """
    trial.check(AS_IN_STOCK)
    expected = trial.inputs.revealed()
    problem, dataset = trial.inputs.problem, load_test_split(data)
    network_name, key = problem.name.split("/")
    network = load_network(network_name)
    shown = min(problem.rows, len(dataset))
    ours: list[Ids] = []
    theirs: list[Ids] = []
    for start in range(0, shown, CHUNK):
        images = min(CHUNK, shown - start)
        for buffer, ids in ((trial.bench.y, ours), (expected, theirs)):
            y = _images(trial, buffer, start, images)
            ids.append(classify_from(network, key, y, partial(_convolved, trial.bench)))
    mine, reference, labels = np.concatenate(ours), np.concatenate(theirs), dataset.labels[:shown]
    return Agreement(
        images=shown,
        same=int((mine == reference).sum()),
        correct=int((mine == labels).sum()),
        correct_fp32=int((reference == labels).sum()),
    )


def _convolved(bench: Bench, x: F32, w: F32) -> F32:
    """Compute y from x and w by the reference kernel."""
    (B, C, H, W), (M, _, K, _) = x.shape, w.shape
    layer = ConvLayer(name="after", B=B, C=C, H=H, W=W, M=M, K=K)
    y = bench.allocated(layer.y_size)
    bench.reference(layer, {"x": bench.uploaded(np.ascontiguousarray(x)), "w": bench.uploaded(w), "y": y})
    words: F32 = bench.device.download(y, np.float32, layer.y_size)
    return words.reshape(layer.y_shape)


def _images(trial: Trial, buffer: Buffer, start: int, images: int) -> F32:
    """Download the output for a few images."""
    shape = trial.inputs.problem.output.shape[1:]
    each = int(np.prod(shape))
    words: F32 = trial.device.download(buffer, np.float32, images * each, FLOAT_BYTES * start * each)
    return words.reshape(images, *shape)
