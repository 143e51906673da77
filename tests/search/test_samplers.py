"""Every sampler keeps the same contract; features, neighbours and the model have theirs."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_candidates import product, resumed

from tuner.errors import UsageError
from tuner.kernels.space import enumerate_space
from tuner.kernels.template import Constraint, DeviceLimits, KernelTemplate, Launch, Parameter
from tuner.problems.conv.layers import ConvLayer
from tuner.search.candidates import ABSENT, Candidates
from tuner.search.features import encode
from tuner.search.gp.acquisition import log_ei
from tuner.search.gp.censored import impute_censored, mean_above
from tuner.search.gp.conditioning import Covariance
from tuner.search.gp.kernel import Kernel, Prior
from tuner.search.gp.likelihood import NegativeLogLikelihood
from tuner.search.gp.posterior import PoolPosterior
from tuner.search.optuna_sampler import TunerSampler
from tuner.search.samplers.base import PoolSampler, Sampler
from tuner.search.samplers.factory import SAMPLERS, make_sampler
from tuner.search.samplers.settings import Settings
from tuner.search.samplers.surrogate import SurrogateSampler

Time = Callable[[int], float | None]


def drain(sampler: Sampler, batch: int, took: Time) -> list[int]:
    """Run a sampler to exhaustion and return all that it proposed."""
    rows: list[int] = []
    while proposed := sampler.propose(batch):
        rows += proposed
        for row in proposed:
            sampler.observe(row, took(row), noise=0.01)
    return rows


def hilly(row: int) -> float | None:
    return 1 + math.sin(row) ** 2 + (row % 7) / 3


@pytest.mark.parametrize("name", SAMPLERS)
class TestContract:
    @pytest.mark.parametrize("batch", [1, 3, 64])
    @pytest.mark.parametrize("templates", [1, 2])
    def test_proposes_each_row_once_then_none(self, name: str, batch: int, templates: int) -> None:
        candidates = product((3, 4, 3), templates)
        sampler = make_sampler(name, candidates, 0)
        assert sorted(drain(sampler, batch, hilly)) == list(range(36))
        assert sampler.propose(5) == []

    @pytest.mark.parametrize("batch", [2, 64])
    def test_proposes_distinct_rows_while_all_are_pending(self, name: str, batch: int) -> None:
        sampler = make_sampler(name, product((5, 5, 5)), 3)
        for row in sampler.propose(20):
            sampler.observe(row, hilly(row))
        rows = [row for _ in range(3) for row in sampler.propose(batch)]
        assert len(set(rows)) == len(rows) == min(3 * batch, 105)

    def test_is_the_same_for_the_same_seed(self, name: str) -> None:
        first, second = (drain(make_sampler(name, product((4, 4, 3)), 7), 5, hilly) for _ in range(2))
        assert first == second

    @pytest.mark.parametrize(
        "took",
        [lambda row: None, lambda row: None if row % 3 else 1.0, lambda row: 2.0, lambda row: math.inf],
        ids=["all fail", "most fail", "constant", "infinite"],
    )
    def test_tolerates_failures_and_constant_times(self, name: str, took: Time) -> None:
        assert sorted(drain(make_sampler(name, product((4, 3, 2)), 1), 4, took)) == list(range(24))

    def test_handles_a_single_point(self, name: str) -> None:
        sampler = make_sampler(name, product((1,)), 0)
        assert sampler.propose(3) == [0]
        assert sampler.propose(3) == []

    def test_never_proposes_skipped_or_observed_rows(self, name: str) -> None:
        sampler = make_sampler(name, product((4, 4)), 0)
        for row in range(4):
            sampler.skip(row)
            sampler.observe(row + 4, 1.0 + row)
        assert sorted(drain(sampler, 3, hilly)) == list(range(8, 16))

    def test_takes_results_late_repeated_and_pruned(self, name: str) -> None:
        sampler = make_sampler(name, product((4, 4, 4)), 0)
        for number, row in enumerate(reversed(sampler.propose(30))):
            sampler.observe(row, hilly(row), noise=0.1, pruned=number % 2 == 0)
            sampler.observe(row, hilly(row))
        assert len(set(sampler.propose(34))) == 34

    def test_refuses_a_row_outside_the_space(self, name: str) -> None:
        sampler = make_sampler(name, product((2, 2)), 0)
        for row in (-1, 4):
            with pytest.raises(IndexError):
                sampler.observe(row, 1.0)

    @settings(max_examples=8, deadline=None)
    @given(data=st.data())
    def test_keeps_its_word_under_any_schedule(self, name: str, data: st.DataObject) -> None:
        candidates = product(
            data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)), data.draw(st.integers(1, 3))
        )
        sampler, seen, owed = make_sampler(name, candidates, 0), set[int](), list[int]()
        times = st.none() | st.floats(1e-6, 1e3)
        for count in data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=8)):
            rows = sampler.propose(count)
            assert len(rows) == min(count, len(candidates) - len(seen))
            assert not seen.intersection(rows)
            seen.update(rows)
            owed += rows
            for _ in range(data.draw(st.integers(0, len(owed)))):
                row = owed.pop(data.draw(st.integers(0, len(owed) - 1)))
                if data.draw(st.booleans()):
                    sampler.observe(row, data.draw(times))
                else:
                    sampler.skip(row)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_is_one_of_a_pool_as_a_warm_start_assumes(name: str) -> None:
    sampler = make_sampler(name, product((2, 2)), 0)
    assert isinstance(sampler, PoolSampler)
    assert sampler.left == 4


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("name", ["surrogate", "tpe", "anneal"])
def test_samplers_that_learn_propose_what_is_fast(name: str, batch: int) -> None:
    """Of three times 80 random rows 12 would be among the fastest twentieth."""
    candidates = product((8, 8, 8))
    times = 1 + np.sum((candidates.choices.astype(float) - (5, 2, 6)) ** 2, axis=1)
    fast = np.quantile(times, 0.05)
    found = []
    for seed in range(3):
        sampler, rows = make_sampler(name, candidates, seed), list[int]()
        while len(rows) < 80:
            for row in sampler.propose(batch):
                rows.append(row)
                sampler.observe(row, float(times[row]))
        found.append(int(np.sum(times[rows] <= fast)))
    assert sum(found) >= 24, found


def test_unknown_sampler_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="sampler 'luck' is unknown; there are: surrogate, tpe, anneal, random, grid"):
        make_sampler("luck", product((2,)), 0)


def test_importing_the_samplers_loads_nothing_heavy() -> None:
    code = "import sys, tuner.search.samplers.factory; print({'scipy', 'optuna', 'sklearn'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_features_of_numbers_shapes_and_words() -> None:
    assert encode((1, 2, 4)).ravel() == pytest.approx([0, 0.5, 1])
    assert encode((16, 32, 48)).shape == (3, 2)  # not all powers of two: the valuation is a feature too
    assert encode(("32x8", "64x4")).tolist() == [[0, 1], [1, 0]]
    assert encode(("B,1,1", "B,M,1", "giant")).tolist() == np.eye(3).tolist()
    assert encode((0, 1, 2)).tolist() == np.eye(3).tolist()
    assert encode((False, True)).ravel().tolist() == [0, 1]
    assert encode((0.5, -1.5, 2.5)).shape == (3, 1)


def a_template(name: str, *parameters: Parameter) -> KernelTemplate:
    return KernelTemplate(
        name=name,
        idea="",
        source="",
        parameters=parameters,
        constraints=(Constraint("small", lambda p, layer, limits: p.TILE * p.BLOCK_X <= 128, "too large"),),
        launch=lambda p, layer: Launch(grid=(1, 1, 1), block=(1, 1, 1)),
    )


@pytest.fixture
def two_templates() -> Candidates:
    tile = Parameter(name="TILE", choices=(1, 2, 4), doc="")
    shape = Parameter(name="BLOCK_SHAPE", choices=("32x8", "64x4"), doc="")
    more = Parameter(name="TILE", choices=(4, 8), doc="")
    where = Parameter(name="WHERE", choices=("global", "shared", "constant"), doc="")
    layer = ConvLayer(name="l", B=2, C=1, H=8, W=8, M=4, K=3)
    limits = DeviceLimits(
        dialect="cuda",
        max_threads=1024,
        max_block=(1024, 1024, 64),
        shared_bytes=49152,
        constant_bytes=65536,
        registers=65536,
        warp=32,
    )
    space = enumerate_space([a_template("a", tile, shape), a_template("b", more, shape, where)], layer, limits)
    candidates = Candidates.of(space)
    assert len(candidates) == len(space)
    for index, configuration in enumerate(space):
        chosen = zip(candidates.axes, candidates.choices[index], strict=True)
        assert {a.name: a.choices[c] for a, c in chosen if c != ABSENT} == configuration.as_dict()
    return candidates


def test_templates_share_columns_of_the_same_name(two_templates: Candidates) -> None:
    assert [axis.name for axis in two_templates.axes] == ["TILE", "BLOCK_SHAPE", "WHERE"]
    assert two_templates.axes[0].choices == (1, 2, 4, 8)
    first = two_templates.choices[two_templates.groups == 0]
    assert (first[:, 2] == ABSENT).all()
    assert two_templates.features.shape == (len(two_templates), 1 + 2 + 3 + 2)
    assert ((two_templates.features >= 0) & (two_templates.features <= 1)).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_two_templates_are_searched_to_the_end(two_templates: Candidates, name: str) -> None:
    assert sorted(drain(make_sampler(name, two_templates, 0), 4, hilly)) == list(range(len(two_templates)))


def test_neighbours_differ_in_one_parameter() -> None:
    candidates = product((3, 4, 2))
    for row in range(24):
        apart = np.count_nonzero(candidates.choices != candidates.choices[row], axis=1)
        assert sorted(candidates.neighbours(row)) == np.flatnonzero(apart == 1).tolist()
        assert candidates.find(candidates.choices[row]) == row
    assert candidates.find(np.array([9, 0, 0], dtype=np.uint8)) is None


def test_budget_goes_to_the_promising_template() -> None:
    candidates = product((5, 5, 4, 3), templates=3)
    sampler = SurrogateSampler(candidates, 0)
    for _ in range(60):
        row = sampler.propose(1)[0]
        slower = [1.0, 4.0, 6.0][candidates.groups[row]]
        sampler.observe(row, slower * (1 + 0.05 * float(candidates.choices[row].sum())))
    counts = np.bincount(candidates.groups[sampler.log.observations.rows], minlength=3)
    assert counts[0] > 2 * counts[1:].max()


def test_failures_are_avoided_once_seen() -> None:
    candidates = product((8, 8, 4, 3))
    sampler, failed = SurrogateSampler(candidates, 0), 0
    for number in range(60):
        row = sampler.propose(1)[0]
        x, y, z, _ = (int(choice) for choice in candidates.choices[row])
        broken = x > 3  # half of the space, and a little faster if it worked
        failed += broken and number >= 20
        sampler.observe(row, None if broken else 2 - 0.02 * x + 0.1 * abs(y - 5) + 0.2 * abs(z - 1))
    assert failed <= 10


def test_bounds_are_raised_to_what_is_expected_above_them() -> None:
    random = np.random.default_rng(0)
    draws = random.normal(size=400_000) * 0.7 + 0.2
    for bound in (-4.0, 0.0, 1.0):
        found = mean_above(np.array([0.2]), np.array([0.7]), np.array([bound]))[0]
        assert found == pytest.approx(draws[draws > bound].mean(), abs=0.01)
    far = mean_above(np.zeros(2), np.ones(2), np.array([50.0, -50.0]))
    assert far == pytest.approx([50.02, 0.0], abs=0.001)


def test_a_bound_counts_little_where_its_neighbour_says_more() -> None:
    covariance = Covariance(np.array([[1.0, 0.99, 0.0], [0.99, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    target, bounded = np.array([2.0, -1.0, 0.5]), np.array([False, True, True])
    result = impute_censored(covariance, target, bounded)
    assert result[0] == 2.0  # a measurement stays
    assert result[1] == pytest.approx(1.98, abs=0.05)  # its neighbour took 2
    assert result[2] == pytest.approx(1.141, abs=0.01)  # nothing near: the mean of a normal above 0.5
    assert impute_censored(covariance, target, np.zeros(3, dtype=bool)) is target


def test_pruned_trials_cost_the_search_little() -> None:
    """A search told only that slow configurations took over 1.3 times the best finds the optimum as one told all."""
    candidates = product((8, 8, 5, 4))
    random = np.random.default_rng(1)
    bump = random.normal(scale=0.03, size=len(candidates))

    def seconds(row: int) -> float:
        x, y, z, w = (int(choice) for choice in candidates.choices[row])
        return math.exp(0.2 * abs(x - 5) + 0.15 * abs(y - 2) + 0.3 * (z != 3) + 0.1 * w + float(bump[row]))

    goal = 1.05 * min(seconds(row) for row in range(len(candidates)))

    def needed(pruning: bool, seed: int) -> int:
        sampler, best = SurrogateSampler(candidates, seed), math.inf
        for number in range(1, 151):
            row = sampler.propose(1)[0]
            took = seconds(row)
            pruned = pruning and took > 1.3 * best
            sampler.observe(row, 1.3 * best if pruned else took, pruned=pruned)
            best = min(best, took)
            if best <= goal:
                return number
        return 151

    told, cut = (sorted(needed(pruning, seed) for seed in range(5))[2] for pruning in (False, True))
    assert cut <= told + 15


def test_likelihood_gradient_is_that_of_its_value() -> None:
    candidates = product((4, 3, 5), templates=2)
    random = np.random.default_rng(0)
    rows = candidates.codes_of(random.choice(60, 20, replace=False))
    kernel = Kernel(candidates.model_features, Prior())
    likelihood = NegativeLogLikelihood(kernel, rows, random.normal(size=20), np.full(20, 0.01))
    theta = random.normal(scale=0.3, size=len(kernel.theta))
    for position in range(len(theta)):
        step = np.zeros(len(theta))
        step[position] = 1e-5
        slope = (likelihood(theta + step)[0] - likelihood(theta - step)[0]) / 2e-5
        assert likelihood(theta)[1][position] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_posterior_grown_by_rows_is_the_one_built_at_once() -> None:
    candidates = product((4, 3, 5))
    kernel = Kernel(candidates.model_features, Prior())
    pool, known = candidates.codes_of(np.arange(60)), candidates.codes_of(np.arange(0, 60, 1))
    target = np.sin(np.arange(50.0))
    grown = PoolPosterior(kernel, pool, known[:5], np.zeros(5))
    for row in known[5:50]:
        grown.add(row)
    whole = PoolPosterior(kernel, pool, known[:50], np.zeros(50))
    assert grown.variance == pytest.approx(whole.variance, abs=1e-5)
    assert grown.mean(target) == pytest.approx(whole.mean(target), abs=1e-3)
    open_rows = np.arange(50) < 40
    believed, _ = grown.complete(target, open_rows, np.zeros(50), np.zeros(50, dtype=bool))
    shorter = PoolPosterior(kernel, pool, known[:40], np.zeros(40)).mean(target[:40])
    assert grown.mean(believed) == pytest.approx(shorter, abs=1e-3)


def test_log_improvement_is_finite_far_below_and_exact_nearby() -> None:
    deviation = np.ones(6)
    mean = np.array([-2.0, 0.0, 0.9, 1.1, 30.0, 1e5])
    scores = log_ei(mean, deviation, 0.0)
    assert np.isfinite(scores).all()
    assert (np.diff(scores) < 0).all()
    assert scores[1] == pytest.approx(math.log(1 / math.sqrt(2 * math.pi)))


@pytest.mark.parametrize("z", [-40.5, -39.995, -7.77, -0.333, 2.222, 11.0])
def test_log_improvement_is_that_of_the_integral(z: float) -> None:
    gain = np.linspace(0, 30, 2_000_001)
    logs = -0.5 * (gain - z) ** 2 - 0.5 * math.log(2 * math.pi)  # a gain so large has this density
    top = float(logs.max())
    exact = top + math.log(float((gain * np.exp(logs - top)).sum()) * (gain[1] - gain[0]))
    found = log_ei(np.array([-z * 3.0]), np.array([3.0]), 0.0)[0]
    assert found == pytest.approx(exact + math.log(3.0), abs=2e-3)


@pytest.mark.parametrize(("sizes", "told"), [((10,) * 6, 30), ((6, 6, 6, 6, 4, 4), 10_000)], ids=["million", "many"])
def test_a_search_at_scale_stays_within_a_gigabyte(sizes: tuple[int, ...], told: int) -> None:
    """And a proposal takes milliseconds, to which ``tests/benchmarks/limits.py`` holds it."""
    tracemalloc.start()
    try:
        sampler, rows = resumed(sizes, told)
        for _ in range(5):
            rows += sampler.propose(1)
            sampler.observe(rows[-1], 1.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(set(rows)) == told + 5
    assert peak < 2**30


def test_members_of_the_ensemble_differ_while_results_are_few() -> None:
    candidates = product((6, 6, 5, 4))
    sampler = SurrogateSampler(candidates, 0)
    for row in sampler.propose(12):
        sampler.observe(row, hilly(row))
    for _ in range(4):
        sampler.observe(sampler.propose(1)[0], 2.0)
    results, waiting = sampler.log.observations, sampler.pending
    scores = [member.score(results, waiting) for member in sampler.ensemble.members]
    assert len(scores) == Settings().members
    for first, second in itertools.pairwise(scores):
        assert np.abs(first - second).max() > 0.01


class TestOptuna:
    @staticmethod
    def objective(sampler: TunerSampler) -> Callable[[optuna.Trial], float]:
        def run(trial: optuna.Trial) -> float:
            space, params = sampler.search_space, trial.relative_params
            values: list[Any] = [trial.suggest_categorical(name, space[name].choices) for name in params]  # type: ignore[attr-defined]
            if sum(value == 3 for value in values) > 1:
                raise optuna.TrialPruned
            return 1.0 + sum(abs(value - 2) for value in values if isinstance(value, int))

        return run

    @pytest.fixture(autouse=True)
    def _quiet(self) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    @pytest.mark.parametrize("templates", [1, 2])
    def test_study_sees_each_configuration_once_and_stops(self, templates: int) -> None:
        sampler = TunerSampler(product((3, 3, 2), templates))
        study = optuna.create_study(sampler=sampler)
        study.optimize(self.objective(sampler), n_trials=50)
        assert len({tuple(sorted(trial.params.items())) for trial in study.trials}) == len(study.trials) == 18
        assert study.best_value == 1.0
        with pytest.raises(UsageError, match="all 18 configurations"):
            study.ask().relative_params  # noqa: B018

    def test_resumed_study_repeats_nothing(self) -> None:
        first = TunerSampler(product((4, 3, 2)))
        study = optuna.create_study(sampler=first)
        study.optimize(self.objective(first), n_trials=10)
        study.sampler = second = TunerSampler(product((4, 3, 2)))
        study.optimize(self.objective(second), n_trials=50)
        assert len({tuple(sorted(trial.params.items())) for trial in study.trials}) == len(study.trials) == 24

    def test_maximising_is_refused(self) -> None:
        study = optuna.create_study(direction="maximize", sampler=TunerSampler(product((2, 2))))
        with pytest.raises(UsageError, match="minimises one objective"):
            study.ask().relative_params  # noqa: B018


def test_settings_cap_what_the_model_holds() -> None:
    sampler = SurrogateSampler(product((6, 6, 6)), 0, Settings(known=30))
    rows = drain(sampler, 1, hilly)
    assert sorted(rows) == list(range(216))
