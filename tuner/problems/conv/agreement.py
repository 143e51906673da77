"""End to end: does a network give images the same classes when a configuration computes one of its layers?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.problems.accuracy import F32
from tuner.problems.conv.dataset import load_test_split
from tuner.problems.conv.layers import ConvLayer
from tuner.problems.conv.networks import Ids, classify_from, load_network
from tuner.problems.whole import Agreement, Outputs

CHUNK = 250  # images held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAgreement(Agreement):
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


def class_agreement(layer: ConvLayer, outputs: Outputs, data: Path | None) -> ClassAgreement:
    """Classify a configuration's output and the reference's.

    A convolution after it is the reference kernel's; pooling and dense layers run on the CPU.
    """
    dataset = load_test_split(data)
    network_name, key = layer.name.split("/")
    network = load_network(network_name)

    def convolved(x: F32, w: F32) -> F32:
        (B, C, H, W), (M, _, K, _) = x.shape, w.shape
        return outputs.reference(ConvLayer(name="after", B=B, C=C, H=H, W=W, M=M, K=K), {"x": x, "w": w})

    shown = min(layer.B, len(dataset))
    ours: list[Ids] = []
    theirs: list[Ids] = []
    for start in range(0, shown, CHUNK):
        for y, ids in zip(outputs.rows(start, min(CHUNK, shown - start)), (ours, theirs), strict=True):
            ids.append(classify_from(network, key, y, convolved))
    mine, reference, labels = np.concatenate(ours), np.concatenate(theirs), dataset.labels[:shown]
    return ClassAgreement(
        images=shown,
        same=int((mine == reference).sum()),
        correct=int((mine == labels).sum()),
        correct_fp32=int((reference == labels).sum()),
    )
