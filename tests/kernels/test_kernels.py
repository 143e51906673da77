"""Every template computes the convolution: odd shapes, every element against float64, on PoCL."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from pocl_harness import CPU_LIMITS, F32, convolve

from tuner.kernels.loading import builtin_templates
from tuner.kernels.space import TemplateSpace, enumerate_template
from tuner.kernels.template import OPENCL
from tuner.problems.accuracy import F64, compare, tolerance
from tuner.problems.conv.layers import LAYERS, ConvLayer
from tuner.problems.conv.reference import reference_conv

TEMPLATES = builtin_templates()
PORTABLE = sorted(name for name, template in TEMPLATES.items() if OPENCL in template.dialects)
SAMPLES = {"direct": 1, "shared_tile": 2}
WIDTHS = (16, 8, 4)  # words in a register of three kinds of CPU
SHAPES = (
    ConvLayer(name="one image", B=1, C=6, H=30, W=30, M=16, K=5),
    ConvLayer(name="wide, M prime", B=3, C=4, H=9, W=22, M=7, K=3),
    ConvLayer(name="high", B=5, C=3, H=23, W=8, M=5, K=2),
    ConvLayer(name="1x1 filter", B=3, C=8, H=6, W=7, M=13, K=1),
    ConvLayer(name="K is H", B=5, C=2, H=5, W=11, M=8, K=5),
    ConvLayer(name="large filter", B=2, C=1, H=13, W=30, M=4, K=11),
    ConvLayer(name="many channels", B=2, C=64, H=5, W=6, M=12, K=3),
    ConvLayer(name="ragged batch", B=7, C=1, H=28, W=28, M=10, K=5),
    ConvLayer(name="large prime M", B=1, C=3, H=10, W=9, M=127, K=3),
    ConvLayer(name="one output", B=3, C=16, H=7, W=7, M=37, K=7),
    ConvLayer(name="a column", B=2, C=3, H=17, W=4, M=6, K=4),
    ConvLayer(name="a row", B=2, C=5, H=3, W=29, M=2, K=3),
    ConvLayer(name="three columns", B=2, C=4, H=40, W=5, M=11, K=3),
    ConvLayer(name="one pixel", B=2, C=512, H=1, W=1, M=100, K=1),
    ConvLayer(name="many of both channels", B=1, C=512, H=4, W=5, M=512, K=3),
    ConvLayer(name="prime C", B=1, C=31, H=11, W=16, M=19, K=6),
    ConvLayer(name="large image", B=1, C=1, H=512, W=512, M=2, K=3),
    ConvLayer(name="one channel out", B=4, C=2, H=19, W=33, M=1, K=9),
)


@cache
def case(layer: ConvLayer) -> tuple[F32, F32, F64, float]:
    """x, w, y in float64, and the tolerance."""
    rng = np.random.default_rng(layer.B + layer.C)
    x = rng.standard_normal(layer.x_shape).astype(np.float32)
    w = rng.standard_normal(layer.w_shape).astype(np.float32)
    return x, w, reference_conv(x, w), tolerance(layer, layer.largest_norm({"w": w}), float(np.abs(x).max()))


def assert_right(space: TemplateSpace, row: int) -> None:
    layer = space.problem
    assert isinstance(layer, ConvLayer)
    x, w, expected, atol = case(layer)
    configuration = space.configuration(row)
    y = convolve(space.template, configuration, layer, (x, w), space.limits.vector_words)
    assert not np.isnan(y).any(), f"{configuration} on {layer.describe()}: elements were not written"
    assert compare(y, expected, atol).ok, f"{configuration} on {layer.describe()}: {compare(y, expected, atol)}"


@pytest.mark.parametrize("layer", SHAPES, ids=lambda layer: layer.name.replace(" ", "-"))
@pytest.mark.parametrize("name", PORTABLE)
def test_sampled_configurations_agree_with_float64(name: str, layer: ConvLayer) -> None:
    chance = random.Random(f"{name} {layer.name}")
    for words in WIDTHS[: SAMPLES.get(name)]:
        space = enumerate_template(TEMPLATES[name], layer, replace(CPU_LIMITS, vector_words=words))
        assert len(space), f"{name} has no configuration for {layer.describe()}"
        assert_right(space, chance.randrange(len(space)))


@pytest.mark.parametrize("name", PORTABLE)
def test_baselines_agree_with_float64(name: str) -> None:
    template = TEMPLATES[name]
    space = enumerate_template(template, LAYERS["fa17/conv1"].with_batch(3), CPU_LIMITS)
    for baseline in template.baselines:
        row = space.find(template.configuration(baseline.values))
        assert row is not None, baseline.name
        assert_right(space, row)
