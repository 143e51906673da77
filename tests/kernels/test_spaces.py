"""Spaces stay between 10,000 and a million configurations on a CUDA device, and are quickly enumerated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spaces import enumerate_measured
from templates import CUDA_LIMITS

from tuner.kernels.loading import builtin_templates
from tuner.kernels.space import enumerate_space
from tuner.problems.conv.layers import LAYERS, ConvLayer

TEMPLATES = list(builtin_templates().values())
MOST = 1_000_000
PEAK_BYTES = 500e6


@pytest.mark.parametrize("layer", LAYERS.values(), ids=lambda layer: layer.name)
def test_each_layer_has_ten_thousand_to_a_million_configurations(layer: ConvLayer) -> None:
    size = len(enumerate_space(TEMPLATES, layer, CUDA_LIMITS))
    assert 10_000 <= size <= MOST, layer.describe()


def test_a_million_configurations_take_500_megabytes() -> None:
    """And five seconds on an idle machine, to which ``tests/benchmarks/limits.py`` holds them."""
    limits = replace(CUDA_LIMITS, precision="bf16")  # allows the most
    found = enumerate_measured(TEMPLATES, LAYERS["fa17/conv1"], limits)
    assert 500_000 <= found.size <= MOST
    assert found.peak_bytes * MOST / found.size < PEAK_BYTES
