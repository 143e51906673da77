"""Figures that templates derive: the same for one and for many, looked up by the surrogate, and none for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from templates import CUDA_LIMITS
from toy_store import OTHER, TOY

from tuner.errors import UsageError
from tuner.kernels.loading import builtin_templates
from tuner.kernels.space import enumerate_space
from tuner.kernels.template import KernelTemplate, Parameter
from tuner.problems.conv.layers import LAYERS, ConvLayer
from tuner.problems.gemm import Gemm
from tuner.problems.lookup import described_problem
from tuner.recordings.space import load_recorded
from tuner.search import derived_features as module
from tuner.search.arrays import Rows
from tuner.search.candidates import Candidates
from tuner.search.derived_features import LEVELS, Figures, logarithms
from tuner.search.samplers.factory import SAMPLERS, make_sampler
from tuner.search.samplers.pool import ALL
from tuner.search.samplers.settings import HURRIED
from tuner.search.samplers.surrogate import SurrogateSampler

LAYER = LAYERS["sp18/conv2"]
LIMITS = replace(CUDA_LIMITS, capability=90)
BUILT_IN = builtin_templates()


def side_and_padding(p: Any, layer: ConvLayer) -> Mapping[str, Any]:
    return {"area": p.TILE_WIDTH * p.TILE_WIDTH, "padded": p.TILE_WIDTH * p.PADDING, "batch": layer.B}


def rough(p: Any, layer: ConvLayer) -> Mapping[str, Any]:
    """Return what a search has to know here: a size without order among the parameters."""
    return {"rough": 1 + p.PADDING * 37 * p.TILE_WIDTH % 61}


WITH = replace(TOY, figures=side_and_padding)


def candidates_of(*templates: KernelTemplate) -> Candidates:
    return Candidates.of(enumerate_space(templates, LAYER, LIMITS))


def levels_in(found: Candidates) -> Rows:
    assert found.figures is not None
    return found.figures.levels


def figures_of(template: KernelTemplate, values: Any, layer: ConvLayer) -> Mapping[str, Any]:
    assert template.figures is not None
    return template.figures(values, layer)


@pytest.mark.parametrize("name", ["shared_tile", "register_tile", "tensor_core"])
@pytest.mark.parametrize("layer", ["fa17/conv1", "fa18/conv2", "sp18/conv2"])
def test_figures_of_one_are_those_of_many(name, layer):
    template = BUILT_IN[name]
    part = enumerate_space([template], LAYERS[layer], LIMITS).parts[0]
    chosen = np.random.default_rng(0).integers(0, len(part), 40)
    columns = logarithms(template, LAYERS[layer], part.rows[chosen])
    for place, row in enumerate(chosen.tolist()):
        values = template.values_of(part.configuration(row))
        alone = figures_of(template, values, LAYERS[layer])
        assert {each: column[place] for each, column in columns.items()} == pytest.approx(
            {each: np.log2(float(value)) for each, value in alone.items()}
        )
        assert alone["waste"] >= 1
        assert alone["shared bytes"] == template.launch(values, LAYERS[layer]).shared_bytes


def test_figures_of_the_same_name_share_a_column_and_constant_ones_have_none():
    vectors = replace(OTHER, figures=lambda p, layer: {"padded": p.TILE_WIDTH * p.VECTOR})
    found = candidates_of(WITH, vectors, replace(TOY, name="bare"))
    area, padded = levels_in(found).T.astype(int)
    assert sorted(set(area[found.groups == 0])) == [0, 50, 99]
    assert set(area[found.groups != 0]) == {LEVELS}
    assert (padded[found.groups == 1].min(), padded[found.groups == 0].max()) == (0, LEVELS - 1)
    assert set(padded[found.groups == 2]) == {LEVELS}
    assert [feature.column for feature in found.model_features[-2:]] == [len(found.axes) + 2, len(found.axes) + 3]
    assert found.codes_of([0]).shape == (1, len(found.axes) + 4)


def test_figures_in_pieces_are_those_of_the_whole(monkeypatch):
    whole = levels_in(candidates_of(WITH))
    monkeypatch.setattr(module, "CHUNK", 7)
    assert (levels_in(candidates_of(WITH)) == whole).all()


def test_template_without_figures_is_searched_as_ever():
    found = candidates_of(TOY)
    assert levels_in(found).shape == (len(found), 0)
    sampler, bare = make_sampler("surrogate", found, 0), make_sampler("surrogate", replace(found, figures=None), 0)
    for _ in range(12):
        (row,), other = sampler.propose(1), bare.propose(1)
        assert [row] == other
        for each in (sampler, bare):
            each.observe(row, 1e-3 * (1 + row % 7))


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        (lambda p, layer: {"shared": p.TILE_WIDTH * 0}, "figure 'shared' is 0; give positive numbers alone"),
        (lambda p, layer: None, "its figures are None; return a dictionary"),
        (lambda p, layer: {"shared": 1 // 0}, "its figures fail; test_figures.py:"),
        (lambda p, layer: {"shared": float("nan")}, "figure 'shared' is nan"),
        (lambda p, layer: {"shared": p.WIDTH}, "p.WIDTH: no such parameter is declared"),
        (lambda p, layer: {"shared": [1, 2]}, "its figures fail; ValueError"),
    ],
)
def test_impossible_figures_are_one_line(figures, says):
    with pytest.raises(UsageError, match="template toy: ") as caught:
        candidates_of(replace(TOY, figures=figures))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", SAMPLERS)
def test_space_with_and_without_figures_is_searched_to_the_end(name):
    small = Parameter(name="PADDING", choices=(1, 2, 3, 5, 9), doc="")
    short = replace(WITH, parameters=(*WITH.parameters[:2], small))
    found = candidates_of(short, OTHER)
    sampler, seen = make_sampler(name, found, 0), list[int]()
    while rows := sampler.propose(4):
        for row in rows:
            sampler.observe(row, None if row % 9 == 0 else 1e-3 * (1 + row % 7))
        seen += rows
    assert sorted(seen) == list(range(len(found)))


def test_hurried_search_of_a_large_space_takes_figures():
    depth = Parameter(name="DEPTH", choices=tuple(range(1, 81)), doc="")
    found = candidates_of(replace(WITH, parameters=(*WITH.parameters, depth)))
    assert len(found) > ALL
    sampler = SurrogateSampler(found, 0, HURRIED)
    for _ in range(6):
        for row in sampler.propose(8):
            sampler.observe(row, 1e-3 * (1 + row % 7))
    assert sampler.pool.codes.shape[1] == found.codes_of([0]).shape[1]


def test_search_knows_what_only_a_figure_tells():
    space = enumerate_space([replace(TOY, figures=rough)], LAYER, LIMITS)
    found = Candidates.of(space)
    times = [1 + abs(np.log(rough(TOY.values_of(each), LAYER)["rough"] / 20)) for each in space]

    def ends(candidates: Candidates, seed: int) -> int:
        sampler, tried = make_sampler("surrogate", candidates, seed), 0
        while tried < 120:
            (row,) = sampler.propose(1)
            tried += 1
            sampler.observe(row, times[row])
            if times[row] == min(times):
                return tried
        return tried

    with_it = [ends(found, seed) for seed in range(3)]
    without = [ends(replace(found, figures=None), seed) for seed in range(3)]
    assert 2 * median(with_it) <= median(without), (with_it, without)


@pytest.mark.parametrize(
    "problem", [*LAYERS.values(), Gemm(name="gemm/N5K7", M=9, N=5, K=7)], ids=lambda problem: problem.name
)
def test_described_problem_is_read_back(problem):
    assert described_problem(problem.name, problem.describe()) == problem
    assert described_problem(problem.name, "no sizes") is None
    assert described_problem(problem.name, "M=9 N=x K=7") is None


COMMENT = f"# study: any\n# layer: {LAYER.name}: {LAYER.describe()}\n"
TILES = "tensor_core,8,2,1\ntensor_core,16,2,2\ntensor_core,16,4,3\n"


def levels_of(folder: Path, text: str) -> Figures | None:
    (folder / "space.csv").write_text(text)
    return load_recorded(folder / "space.csv").candidates.figures


def test_recording_of_our_own_template_has_its_figures(tmp_path):
    found = levels_of(tmp_path, f"{COMMENT}template,TILE_M,TILE_ROWS,time_ms\n{TILES}")
    assert found is not None
    template = BUILT_IN["tensor_core"]
    pairs = ({"TILE_M": 8, "TILE_ROWS": 2}, {"TILE_M": 16, "TILE_ROWS": 2}, {"TILE_M": 16, "TILE_ROWS": 4})
    values = [template.values_of(template.configuration(each)) for each in pairs]  # first choices for what it lacks
    shared = np.log([figures_of(template, each, LAYER)["shared bytes"] for each in values])
    assert found.levels[:, 0].tolist() == np.rint((shared - shared.min()) * 99 / np.ptp(shared)).tolist()


@pytest.mark.parametrize(
    "text",
    [
        f"template,TILE_M,TILE_ROWS,time_ms\n{TILES}",  # of which layer, it does not say
        f"{COMMENT}template,TILE_M,MINE,time_ms\n{TILES}",  # another template of this name
        f"{COMMENT}template,TILE_M,TILE_ROWS,time_ms\n{TILES.replace('8', '9')}",
        f"{COMMENT}template,TILE_M,TILE_ROWS,time_ms\n{TILES.replace('tensor_core', 'mine')}",
    ],
)
def test_recording_that_says_too_little_has_none(tmp_path, text):
    found = levels_of(tmp_path, text)
    assert found is not None
    assert found.levels.shape[1] == 0


def test_recording_of_no_template_has_none(tmp_path):
    assert levels_of(tmp_path, f"{COMMENT}TILE_M,TILE_ROWS,time_ms\n8,2,1\n16,2,2\n") is None
