"""nvcc compiles a sample of every template's space for three generations, without spills where none are declared.

A configuration declares that it may spill by unrolling the whole filter (the compiler then loads far ahead) or by
asking for several resident blocks (which limits its registers). ptxas keeps a few bytes of some kernels in local
memory where most registers are free; up to ``FEW_BYTES`` are no spill.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from ptxas import Used, compile_all, compile_one
from templates import CUDA_LIMITS, NAMES, TEMPLATES, needs_nvcc

from tuner.devices.nvcc import SHORT_HEADER_FITS, short_header, toolkit
from tuner.kernels.render import render
from tuner.kernels.space import TemplateSpace, enumerate_template
from tuner.kernels.template import CUDA, Configuration
from tuner.problems.conv.layers import LAYERS

FEW_BYTES = 32
GENERATIONS = {"sm_80": ("sp18/conv2", 166_912), "sm_90a": ("fa18/conv2", 232_448), "sm_100": ("fa17/conv1", 232_448)}
FAST = TEMPLATES["register_tile"].configuration(
    {
        "TILE_W": 2,
        "TILE_H": 2,
        "TILE_M": 16,
        "UNROLL": "filter",
        "IMAGES": 2,
        "BLOCK_SHAPE": "128x1",
        "COPY_BY": "cp_async",
        "VECTOR": 4,
    }
)


def capability_of(arch: str) -> int:
    return int(arch.removeprefix("sm_").removesuffix("a"))


def names_for(arch: str) -> list[str]:
    """Return the templates that this generation has; warpgroups multiply on sm_90a alone."""
    names = [name for name in NAMES if CUDA in TEMPLATES[name].dialects]
    return [name for name in names if name != "warpgroup" or arch == "sm_90a"]


def may_spill(configuration: Configuration) -> bool:
    values = configuration.as_dict()
    return values.get("UNROLL") == "filter" or values.get("MIN_BLOCKS", 1) != 1


def sample(space: TemplateSpace, rng: random.Random) -> list[Configuration]:
    """Return any configuration, and one that declares no spills."""
    drawn = [space.configuration(rng.randrange(len(space))) for _ in range(200)]
    return [drawn[0], next(each for each in drawn[1:] if not may_spill(each))]


def compiled(configurations: list[Configuration], layer: str, arch: str, folder: Path) -> list[Used]:
    sources = [render(TEMPLATES[each.template], each, LAYERS[layer], CUDA).source for each in configurations]
    return compile_all(sources, arch, folder)


@needs_nvcc
@pytest.mark.parametrize("arch", GENERATIONS)
def test_nvcc_compiles_a_sample_of_every_space(arch: str, tmp_path: Path) -> None:
    layer, shared_bytes = GENERATIONS[arch]
    limits = replace(CUDA_LIMITS, shared_bytes=shared_bytes, capability=capability_of(arch))
    rng = random.Random(arch)
    chosen = []
    for name in names_for(arch):
        space = enumerate_template(TEMPLATES[name], LAYERS[layer], limits)
        assert len(space), f"{name} on {layer} for {arch}"
        chosen += sample(space, rng)
    for configuration, used in zip(chosen, compiled(chosen, layer, arch, tmp_path), strict=True):
        assert used.code == 0, f"{configuration} on {layer} for {arch}:\n{used.log}"
        assert "warning" not in used.log, f"{configuration} on {layer} for {arch}:\n{used.log}"
        most = None if may_spill(configuration) else FEW_BYTES
        assert most is None or used.spills <= most, f"{configuration} on {layer} for {arch}:\n{used.log}"


@needs_nvcc
@pytest.mark.parametrize("arch", GENERATIONS)
def test_the_short_header_gives_the_same_machine_code(arch: str, tmp_path: Path) -> None:
    if not any(release in toolkit() for release in SHORT_HEADER_FITS):
        pytest.skip(f"not used with this nvcc: {toolkit()}")
    layer, shared_bytes = GENERATIONS[arch]
    limits = replace(CUDA_LIMITS, shared_bytes=shared_bytes, capability=capability_of(arch))
    rng = random.Random(f"header {arch}")
    for name in names_for(arch):
        space = enumerate_template(TEMPLATES[name], LAYERS[layer], limits)
        configuration = space.configuration(rng.randrange(len(space)))
        source = render(TEMPLATES[name], configuration, LAYERS[layer], CUDA).source
        path = tmp_path / f"{name}.cu"
        whole = compile_one(source, arch, path)
        assert whole.code == 0, whole.log
        expected = path.with_suffix(".cubin").read_bytes()
        path.with_suffix(".cubin").unlink()
        short = compile_one(source, arch, path, short_header())
        assert short.code == 0, f"{configuration}:\n{short.log}"
        assert path.with_suffix(".cubin").read_bytes() == expected, f"{configuration} for {arch}"


@needs_nvcc
def test_the_fastest_configuration_known_spills_nothing(tmp_path: Path) -> None:
    for arch in GENERATIONS:
        used = compiled([FAST], "sp18/conv2", arch, tmp_path)[0]
        assert used.code == 0, used.log
        assert used.spills == 0, f"{FAST} for {arch}:\n{used.log}"
