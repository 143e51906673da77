"""End to end: does a network give images the same classes when a configuration computes one of its layers?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tuner.dataset import load_test_split
from tuner.layers import FLOAT_BYTES
from tuner.networks import Ids, classify_from, load_network
from tuner.reference import F32

if TYPE_CHECKING:
    from tuner.devices import Buffer
    from tuner.measure import Trial

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
    """Run a configuration once, and classify its output and the reference's; the network's other layers run on the CPU.

    Raises:
        WrongResult, TimedOut, Crashed: As the configuration deserves.
    """
    trial.check()
    layer, dataset = trial.inputs.layer, load_test_split(data)
    network, name = layer.name.split("/")
    shown = min(layer.B, len(dataset))
    ours: list[Ids] = []
    theirs: list[Ids] = []
    for start in range(0, shown, CHUNK):
        images = min(CHUNK, shown - start)
        for buffer, ids in ((trial.bench.y, ours), (trial.inputs.expected, theirs)):
            ids.append(classify_from(load_network(network), name, _images(trial, buffer, start, images)))
    mine, reference, labels = np.concatenate(ours), np.concatenate(theirs), dataset.labels[:shown]
    return Agreement(
        images=shown,
        same=int((mine == reference).sum()),
        correct=int((mine == labels).sum()),
        correct_fp32=int((reference == labels).sum()),
    )


def _images(trial: Trial, buffer: Buffer, start: int, images: int) -> F32:
    """Download the output for a few images."""
    each = int(np.prod(trial.inputs.layer.y_shape[1:]))
    words: F32 = trial.device.download(buffer, np.float32, images * each, FLOAT_BYTES * start * each)
    return words.reshape(images, *trial.inputs.layer.y_shape[1:])
