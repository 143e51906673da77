"""Templates: their rules, their sizes, and the spaces of both."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pocl_harness import CPU_LIMITS, NARROW_LIMITS
from templates import CUDA_LIMITS, NAMES, TEMPLATES, needs_nvcc

from tuner.devices.cuda_driver import arch_of
from tuner.devices.nvcc import C_LINKAGE
from tuner.errors import UsageError
from tuner.kernels.columns import Columns
from tuner.kernels.loading import load_template
from tuner.kernels.render import render
from tuner.kernels.space import Space, enumerate_space, enumerate_template
from tuner.kernels.template import CUDA, OPENCL, DeviceLimits
from tuner.problems.conv.layers import LAYERS, ConvLayer

SMALL_LIMITS = replace(CUDA_LIMITS, max_threads=256, shared_bytes=49_152, constant_bytes=4_096, capability=75)


def custom(**sizes: int) -> ConvLayer:
    return ConvLayer(name="custom", **sizes)


SHAPES = (
    LAYERS["sp18/conv2"],
    LAYERS["fa17/conv1"],
    custom(B=3, C=6, H=12, W=15, M=7, K=4),
    custom(B=3, C=4, H=9, W=20, M=4, K=1),
    custom(B=3, C=4, H=20, W=20, M=8, K=2),
    custom(B=3, C=3, H=24, W=24, M=4, K=17),
    custom(B=3, C=64, H=64, W=64, M=256, K=3),
    custom(B=3, C=512, H=96, W=96, M=128, K=11),
    custom(B=3, C=1, H=12, W=9, M=6, K=5),
)


def nvcc(source: str, arch: str, folder: Path) -> tuple[int, str]:
    """Compile as PyCUDA does; return the exit code and the log."""
    path = folder / f"{abs(hash((source, arch)))}.cu"
    path.write_text(source if C_LINKAGE.search(source) else 'extern "C" {\n' + source + "\n}\n")
    command = ["nvcc", "-cubin", "-std=c++17", f"-arch={arch}", "-o", str(path.with_suffix(".cubin")), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_header_names_every_parameter(name: str) -> None:
    template = TEMPLATES[name]
    header = template.source.partition("\n\n")[0]
    for parameter in template.parameters:
        assert re.search(rf"\b{parameter.name}\b", header), parameter.name


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_leaves_something_out_and_says_why(name: str) -> None:
    """Among random configurations of odd shapes, on three kinds of device."""
    template, count = TEMPLATES[name], 10_000
    rng = np.random.default_rng(17)
    idle = {rule.name: rule.reason for rule in template.rules}
    assert all(idle.values())
    for layer in (*SHAPES, custom(B=3, C=1, H=4, W=4, M=300_000, K=1)):
        for limits in (CPU_LIMITS, NARROW_LIMITS, CUDA_LIMITS, SMALL_LIMITS):
            if limits.dialect in template.dialects:
                rows = np.column_stack([rng.integers(len(each.choices), size=count) for each in template.parameters])
                columns = Columns(rows.astype(np.uint8), template.parameters)
                with np.errstate(divide="ignore"):
                    for rule in template.rules:
                        if rule.name in idle and not np.all(rule.holds(columns, layer, limits)):
                            del idle[rule.name]
    assert idle == {}


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_the_same_for_one_configuration_and_for_columns(name: str) -> None:
    template = TEMPLATES[name]
    for layer in SHAPES[:4]:
        for limits in (CPU_LIMITS, CUDA_LIMITS):
            space = enumerate_template(template, layer, limits)
            if not len(space):
                continue
            picked = np.linspace(0, len(space) - 1, 7).astype(int)
            assert template.sizes is not None
            columns = template.sizes(Columns(space.rows[picked], template.parameters), layer)
            for place, row in enumerate(picked.tolist()):
                for size, (number, _) in template.sizes_of(space.configuration(row), layer).items():
                    column = np.broadcast_to(getattr(columns, size.lower()), len(picked))
                    assert column[place] == number, (size, space.configuration(row))


@pytest.mark.parametrize("name", NAMES)
def test_kernel_reads_every_size_it_is_told(name: str) -> None:
    template = TEMPLATES[name]
    sizes = template.sizes_of(template.configuration({}), LAYERS["sp18/conv2"])
    common = {"H_OUT", "W_OUT", "FILTER"}
    assert [each for each in sizes if each not in common and not re.search(rf"\b{each}\b", template.source)] == []


@pytest.mark.parametrize(
    ("capability", "lacking", "wanted"),
    [
        (75, "tensor cores", {"EPILOGUE": "shuffle", "SPLIT_K": 1}),
        (80, "bulk copies", {"EPILOGUE": "bulk", "SPLIT_K": 1}),
        (80, "clusters", {"EPILOGUE": "shuffle", "SPLIT_K": 2}),
    ],
)
def test_older_device_is_told_what_it_lacks(capability: int, lacking: str, wanted: dict[str, int | str]) -> None:
    template = TEMPLATES["tensor_core"]
    layer = custom(B=2, C=64, H=16, W=16, M=16, K=3) if lacking == "clusters" else LAYERS["sp18/conv2"]
    space = enumerate_template(template, layer, CUDA_LIMITS)
    found = next(c for c in map(space.configuration, range(len(space))) if wanted.items() <= c.as_dict().items())
    assert template.violated(found, layer, CUDA_LIMITS) is None
    broken = template.violated(found, layer, replace(CUDA_LIMITS, capability=capability))
    assert broken is not None
    assert broken.name == lacking


@pytest.mark.parametrize("capability", [80, 89, 100])
def test_warpgroups_are_for_one_generation(capability: int) -> None:
    template, layer = TEMPLATES["warpgroup"], LAYERS["fa18/conv2"]
    space = enumerate_template(template, layer, CUDA_LIMITS)
    limits = replace(CUDA_LIMITS, capability=capability)
    broken = template.violated(space.configuration(len(space) // 2), layer, limits)
    assert broken is not None
    assert broken.reason == "only sm_90a multiplies by warpgroups"
    assert not len(enumerate_template(template, layer, limits))


@needs_nvcc
@pytest.mark.parametrize("name", [name for name in NAMES if CUDA in TEMPLATES[name].dialects])
def test_what_heuristics_leave_out_compiles_too(name: str, tmp_path: Path) -> None:
    """One random configuration that each heuristic alone refuses."""
    template, layer = TEMPLATES[name], custom(B=64, C=6, H=14, W=15, M=10, K=3)
    rng = np.random.default_rng(5)
    whole = enumerate_template(template.without_heuristics(), layer, replace(CUDA_LIMITS, shared_bytes=60_000))
    rows = whole.rows[rng.integers(len(whole), size=3_000)]
    columns = Columns(rows, template.parameters)
    kept = np.array(
        [np.broadcast_to(rule.keeps(columns, layer, CUDA_LIMITS), len(rows)) for rule in template.heuristics]
    )
    alone = np.flatnonzero((~kept).sum(axis=0) == 1)
    assert len(alone)
    place = int(alone[0])
    chosen = dict(zip([each.name for each in template.parameters], rows[place].tolist(), strict=True))
    values = {each.name: each.choices[chosen[each.name]] for each in template.parameters}
    source = render(template, template.configuration(values), layer, CUDA).source
    code, log = nvcc(source, arch_of(9, 0), tmp_path)
    assert code == 0, log


@pytest.mark.parametrize(
    ("precision", "operands"),
    [("fp32", {"fp16x3"}), ("tf32", {"fp16x3", "tf32"}), ("fp16", {"fp16"}), ("bf16", {"bf16"})],
)
def test_warpgroups_round_no_further_than_asked_for(precision: str, operands: set[str]) -> None:
    space = enumerate_template(TEMPLATES["warpgroup"], LAYERS["fa18/conv2"], replace(CUDA_LIMITS, precision=precision))
    assert {TEMPLATES["warpgroup"].parameters[0].choices[row] for row in set(space.rows[:, 0])} == operands


@pytest.mark.parametrize(
    ("precision", "rounded"),
    [("fp32", set()), ("tf32", {"tf32"}), ("fp16", {"tf32", "fp16"}), ("bf16", {"tf32", "fp16", "bf16"})],
)
def test_operands_are_rounded_no_further_than_asked_for(precision: str, rounded: set[str]) -> None:
    limits = replace(CUDA_LIMITS, precision=precision)
    space = enumerate_template(TEMPLATES["tensor_core"], LAYERS["sp18/conv2"], limits)
    operands = TEMPLATES["tensor_core"].parameters[0].choices
    exact = {"fp16x3", "fp16x4"} if rounded else {"tf32x3", "fp16x3", "fp16x4"}  # tf32x3 is tf32 three times
    assert {operands[row] for row in set(space.rows[:, 0])} == rounded | exact


layers = st.builds(
    lambda C, K, h, w, M: custom(B=2, C=C, H=K + h, W=K + w, M=M, K=K),
    C=st.sampled_from([1, 2, 3, 6, 8]),
    K=st.sampled_from([1, 2, 3, 5, 7]),
    h=st.integers(0, 12),
    w=st.integers(0, 20),
    M=st.sampled_from([1, 3, 6, 7, 16]),
)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(layer=layers, limits=st.sampled_from([CPU_LIMITS, CUDA_LIMITS]), data=st.data())
def test_every_enumerated_configuration_is_valid_and_found_again(
    layer: ConvLayer, limits: DeviceLimits, data: st.DataObject
) -> None:
    space = enumerate_space(list(TEMPLATES.values()), layer, limits)
    assert "direct" in {part.template.name for part in space.parts}
    for index in data.draw(st.lists(st.integers(0, len(space) - 1), min_size=20, max_size=20)):
        configuration = space[index]
        assert TEMPLATES[configuration.template].violated(configuration, layer, limits) is None, configuration
        assert space.find(configuration) == index, configuration


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_find_says_none_exactly_when_a_constraint_breaks(data: st.DataObject) -> None:
    template = TEMPLATES[data.draw(st.sampled_from(NAMES))]
    values = {p.name: data.draw(st.sampled_from(p.choices)) for p in template.parameters}
    configuration = template.configuration(values)
    space = small_space()
    violated = template.violated(configuration, space.problem, CUDA_LIMITS)
    assert (space.find(configuration) is None) == (violated is not None), configuration


@cache
def small_space() -> Space:
    return enumerate_space(list(TEMPLATES.values()), custom(B=2, C=2, H=10, W=13, M=6, K=3), CUDA_LIMITS)


@pytest.mark.parametrize("limits", [CPU_LIMITS, CUDA_LIMITS], ids=[OPENCL, CUDA])
def test_space_of_default_layer_is_large(limits: DeviceLimits) -> None:
    space = enumerate_space(list(TEMPLATES.values()), LAYERS["sp18/conv2"], limits)
    assert 20_000 <= len(space) <= 1_000_000


@pytest.mark.parametrize("limits", [CPU_LIMITS, CUDA_LIMITS], ids=[OPENCL, CUDA])
def test_naive_baseline_is_valid_for_every_layer(limits: DeviceLimits) -> None:
    direct = TEMPLATES["direct"]
    for layer in (*LAYERS.values(), *SHAPES, custom(B=1, C=512, H=7, W=9, M=512, K=7)):
        assert direct.violated(direct.configuration({}), layer, limits) is None, layer.describe()


def test_baselines_walk_the_2017_report_on_its_layer() -> None:
    names = [baseline.name for name in NAMES for baseline in TEMPLATES[name].baselines]
    assert len(names) == len(set(names))
    for name in set(NAMES) - {"tensor_core", "warpgroup"}:
        for baseline in TEMPLATES[name].baselines:
            configuration = TEMPLATES[name].configuration(baseline.values)
            limits = CPU_LIMITS if baseline.name.startswith("CPU") else CUDA_LIMITS
            broken = TEMPLATES[name].violated(configuration, LAYERS["fa17/conv1"], limits)
            assert broken is None, f"{baseline.name}: {broken}"


def test_search_knows_of_tensor_cores_from_the_first_on_every_layer() -> None:
    template = TEMPLATES["tensor_core"]
    plain, *others = (template.configuration(baseline.values) for baseline in template.baselines)
    layers = LAYERS.values()
    assert all(template.violated(plain, layer, CUDA_LIMITS) is None for layer in layers)
    wide = custom(B=100, C=8, H=20, W=20, M=32, K=3)
    for each in others:
        rounded = replace(CUDA_LIMITS, precision="fp16") if each.as_dict()["MMA_TYPE"] == "fp16" else CUDA_LIMITS
        assert any(template.violated(each, layer, rounded) is None for layer in (*layers, wide)), each.key


@pytest.mark.parametrize("name", [name for name, layer in LAYERS.items() if layer.C == 1])
def test_search_begins_near_where_searches_of_layers_of_one_channel_ended(name: str) -> None:
    template, layer = TEMPLATES["tensor_core"], LAYERS[name].with_batch(10_000)
    starts = [template.configuration(each.values) for each in template.baselines if each.start]
    valid = [each.as_dict() for each in starts if template.violated(each, layer, CUDA_LIMITS) is None]
    shifted = [each for each in valid if int(each["PIXELS_PER_ROW"]) > 1]
    assert any(each["EPILOGUE"] == "bulk" or each["WEIGHTS"] == "registers" for each in shifted), valid


def test_every_start_of_warpgroups_is_valid_on_some_layer() -> None:
    template = TEMPLATES["warpgroup"]
    deep = [custom(B=64, C=C, H=56, W=56, M=128, K=3) for C in (64, 128)] + [
        custom(B=10_000, C=16, H=33, W=33, M=16, K=3)
    ]
    for each in (template.configuration(baseline.values) for baseline in template.baselines):
        limits = [replace(CUDA_LIMITS, precision=precision) for precision in ("fp32", "tf32", "fp16", "bf16")]
        assert any(
            template.violated(each, layer, limit) is None for layer in (*LAYERS.values(), *deep) for limit in limits
        ), each.key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(:\n", "mine.py:1"),
        ("TEMPLATE = 5\n", "no TEMPLATE"),
        ("from tuner.kernels.template import Parameter\nParameter(name='A', choices=(), doc='')\n", "no choices"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
    ids=["syntax", "no-template", "no-choices", "raises"],
)
def test_broken_template_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    path.with_suffix(".cu").write_text("")
    assert_one_line(path, [message, "mine.py"])


def test_template_without_source_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("")
    assert_one_line(path, ["mine.cu"])


def assert_one_line(path: Path, messages: Sequence[str]) -> None:
    with pytest.raises(UsageError) as caught:
        load_template(path)
    assert "\n" not in str(caught.value)
    for message in messages:
        assert message in str(caught.value)


def test_tensor_cores_are_left_out_where_their_sums_lose_fp32s_accuracy():
    """On an H200 sums of 9,216 terms were off by up to 17 of the 8 units of a plain kernel's error that are allowed."""
    many, few = custom(B=3, C=1024, H=14, W=14, M=64, K=3), LAYERS["fa18/conv2"]
    for name in ("tensor_core", "warpgroup"):
        template = TEMPLATES[name]
        free = replace(template, constraints=tuple(each for each in template.constraints if each.name != "exact sums"))
        fp16 = replace(CUDA_LIMITS, precision="fp16")
        assert len(enumerate_template(template, many, CUDA_LIMITS)) < len(enumerate_template(free, many, CUDA_LIMITS))
        for layer, limits in ((few, CUDA_LIMITS), (many, fp16)):
            assert len(enumerate_template(template, layer, limits)) == len(enumerate_template(free, layer, limits)) > 0
