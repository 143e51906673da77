"""Whatever the layer, every template has something for it, and register_tile something good."""

from __future__ import annotations

import random

import pytest
from pocl_harness import CPU_LIMITS
from templates import CUDA_LIMITS

from tuner.kernels.loading import builtin_templates
from tuner.kernels.space import TemplateSpace, enumerate_template
from tuner.kernels.template import CUDA, OPENCL, DeviceLimits
from tuner.problems.conv.layers import ConvLayer
from tuner.search.resource_model import register_limit, resident_warps

TEMPLATES = builtin_templates()
REUSE = 12  # sums of a thread that make good use of each word read
WARPS = 4  # resident ones: one for each of a multiprocessor's schedulers
SIZES = (
    *((3, 20, 20, M, 3) for M in (1, 2, 7, 11, 13, 37, 127, 509)),  # C, H, W, M, K
    *((C, 16, 16, 64, 3) for C in (7, 31, 257, 512)),
    *((8, 17, 21, 16, K) for K in (1, 2, 6, 8, 9, 10, 11)),
    *((16, K, K, 24, K) for K in (1, 4, 11)),
    *((4, 32, W, 8, 3) for W in (3, 4, 5, 7)),
    *((4, H, 32, 8, 3) for H in (3, 4, 5, 7)),
    (512, 14, 14, 512, 3),
    (512, 11, 11, 512, 11),
    (512, 1, 1, 100, 1),
    (1, 7, 7, 509, 7),
    (1, 512, 512, 2, 3),
    (64, 512, 512, 16, 3),
    (512, 512, 512, 1, 11),
    (64, 1, 512, 31, 1),
    (3, 512, 11, 32, 11),
)
LAYERS = [ConvLayer(name=f"C{C} {H}x{W} M{M} K{K}", B=1, C=C, H=H, W=W, M=M, K=K) for C, H, W, M, K in SIZES]


def spaces(layer: ConvLayer, limits: DeviceLimits) -> dict[str, TemplateSpace]:
    usable = {name: each for name, each in TEMPLATES.items() if limits.dialect in each.dialects}
    return {name: enumerate_template(each, layer, limits) for name, each in usable.items()}


def sums(space: TemplateSpace, row: int) -> int:
    values = space.configuration(row).as_dict()
    return int(values["TILE_W"]) * int(values["TILE_H"]) * int(values["TILE_M"])


def warps(space: TemplateSpace, row: int) -> int:
    configuration = space.configuration(row)
    launch = space.template.launch_of(configuration, space.problem)
    return resident_warps(launch, register_limit(configuration, launch, space.limits), space.limits)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name.replace(" ", "-"))
@pytest.mark.parametrize("limits", [CPU_LIMITS, CUDA_LIMITS], ids=[OPENCL, CUDA])
def test_every_template_has_configurations_and_register_tile_a_good_one(layer: ConvLayer, limits: DeviceLimits) -> None:
    found = spaces(layer, limits)
    for name in ("direct", "shared_tile", "register_tile", *(["channel_vector"] if limits.dialect == OPENCL else [])):
        assert len(found[name]), f"{name} on {layer.describe()}"
    tiled = found["register_tile"]
    wanted = min(REUSE, layer.M * layer.H_out * layer.W_out // 2)
    rows = random.Random(layer.name).sample(range(len(tiled)), min(len(tiled), 3000))
    good = (row for row in rows if sums(tiled, row) >= wanted)
    assert any(limits.dialect != CUDA or warps(tiled, row) >= WARPS for row in good), layer.describe()
