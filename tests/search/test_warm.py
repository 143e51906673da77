"""A search that begins with another's results: quick when they are right, little slower when they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean

import numpy as np
import pytest
from command import tune
from faulty import faulty
from small_run import LAYER as SMALL_LAYER
from small_run import Silent, run
from toy_store import ENVIRONMENT, OTHER, TEMPLATES, TOY, toy_configuration, toy_key, toy_ok

from tuner.errors import UsageError
from tuner.kernels.space import enumerate_space
from tuner.kernels.template import DeviceLimits, KernelTemplate, Parameter
from tuner.problems.conv.layers import ConvLayer, find_layer
from tuner.recordings.simulate import measured_rows, search, simulate, transferred
from tuner.recordings.space import Recorded, load_recorded
from tuner.search.arrays import Floats
from tuner.search.candidates import Candidates
from tuner.search.gp.conditioning import Covariance
from tuner.search.observations import Observations
from tuner.search.samplers.factory import make_sampler, warm_started
from tuner.search.samplers.surrogate import SurrogateSampler
from tuner.search.samplers.transfer import SLOPE_STD, ScaledPriorMean, TransferPrior
from tuner.search.translate import translate
from tuner.storage import Store
from tuner.tuning import RunOptions
from tuner.tuning import tune as tune_layer
from tuner.tuning.source_studies import find_source

LAYER = find_layer("conv2", 10)
LIMITS = DeviceLimits(
    dialect="opencl", max_threads=4096, max_block=(64, 64, 64), shared_bytes=0, constant_bytes=0, registers=0, warp=1
)
SPACE = enumerate_space(TEMPLATES, LAYER, LIMITS)


def write_valley(path: Path, block: int, tile: int) -> Recorded:
    """Write a space of 600 configurations whose optimum is at ``block`` and ``tile``, with a rough surface."""
    rough = np.random.default_rng(1)
    lines = ["block,tile,unroll,mode,time_ms"]
    for b in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        for t in range(1, 7):
            for u in (1, 2, 3, 5, 8):
                for mode in ("row", "column"):
                    slow = abs(np.log2(b / block)) + 0.6 * abs(t - tile) + 0.3 * abs(u - 3) + 0.5 * (mode == "row")
                    lines.append(f"{b},{t},{u},{mode},{(1 + slow) * np.exp(0.1 * rough.normal())}")
    path.write_text("\n".join(lines) + "\n")
    return load_recorded(path)


@pytest.fixture(scope="module")
def valley(tmp_path_factory) -> Recorded:
    return write_valley(tmp_path_factory.mktemp("spaces") / "valley.csv", 64, 3)


def some_of(space: Recorded, count: int) -> Observations:
    """Return what a random search of ``count`` trials leaves behind."""
    rows = np.random.default_rng(7).permutation(len(space.candidates))[:count]
    return measured_rows(space, rows)


def warm(space: Recorded, source: Observations, seed: int) -> SurrogateSampler:
    sampler = warm_started(make_sampler("surrogate", space.candidates, seed), source, seed)
    assert isinstance(sampler, SurrogateSampler)
    return sampler


def weight(sampler: SurrogateSampler) -> float:
    assert sampler.source is not None
    return sampler.source.weight


def test_good_source_reaches_one_percent_within_fifteen(valley):
    source = some_of(valley, 200)
    slower = replace(source, values=source.values + np.log(3) + 0.05 * np.sin(source.rows))
    ends = [search(valley, warm(valley, slower, seed), 60).reaches(0.01) for seed in range(5)]
    assert np.median(ends) <= 15, ends


@pytest.mark.parametrize("fault", ["shuffled", "reversed"])
def test_bad_source_costs_at_most_a_tenth(valley, fault):
    source = some_of(valley, 200)
    shuffled = np.random.default_rng(3).permutation(source.values)
    bad = replace(source, values=shuffled if fault == "shuffled" else -source.values)
    with_it = [search(valley, warm(valley, bad, seed), 200).reaches(0.01) for seed in range(6)]
    without = [simulate(valley, "surrogate", 200, seed).reaches(0.01) for seed in range(6)]
    assert geometric_mean(with_it) <= 1.1 * geometric_mean(without), (with_it, without)


def test_first_trials_are_the_source_fastest_and_a_random_one_between(valley):
    source = some_of(valley, 200)
    sampler = warm(valley, source, 0)
    first, _, third = rows = sampler.propose(3)
    assert first == source.rows[np.argmin(source.values)]
    assert third in source.rows[np.argsort(source.values)[:20]]
    assert np.count_nonzero(valley.candidates.choices[first] != valley.candidates.choices[third]) >= 2
    assert len(set(rows)) == 3


def test_first_batch_holds_the_source_and_random_ones_by_turns(valley):
    source = some_of(valley, 200)
    rows = warm(valley, source, 0).propose(10)
    fast = set(source.rows[np.argsort(source.values)[:60]].tolist())
    assert all(row in fast for row in rows[::2])
    assert not all(row in fast for row in rows[1::2])


def after(sampler: SurrogateSampler, space: Recorded, count: int) -> float:
    """Return the source's weight after ``count`` results all over the space."""
    for row in range(0, 600, 600 // count):
        sampler.observe(row, float(space.seconds[row]))
    sampler.propose(1)
    return weight(sampler)


def test_weight_follows_the_evidence(valley):
    source = some_of(valley, 200)
    shuffled = replace(source, values=np.random.default_rng(3).permutation(source.values))
    assert weight(warm(valley, source, 0)) == pytest.approx(0.73, abs=0.01)
    assert after(warm(valley, source, 0), valley, 12) > 0.95
    assert after(warm(valley, shuffled, 0), valley, 12) < 0.5
    assert after(warm(valley, shuffled, 0), valley, 60) < 0.1


@pytest.fixture(scope="module")
def covariance() -> Floats:
    place = np.linspace(0, 1, 12)
    return np.exp(-np.abs(place[:, None] - place)) + 0.01 * np.eye(12)


def test_line_is_the_integral_over_all_multiples(covariance):
    """Held against the density of values whose covariance holds the guess's multiple."""
    from scipy.stats import multivariate_normal

    values, guess = np.random.default_rng(2).normal(size=(2, 12))
    found, without = (
        ScaledPriorMean.fit(Covariance(covariance), values, guess),
        ScaledPriorMean.fit(Covariance(covariance), values, np.zeros(12)),
    )
    wide = covariance + SLOPE_STD**2 * np.outer(guess, guess)
    apart = multivariate_normal.logpdf(values, guess, wide) - multivariate_normal.logpdf(values, cov=covariance)
    assert found.log_evidence - without.log_evidence == pytest.approx(apart)
    assert np.exp(without.log_evidence) == pytest.approx(
        multivariate_normal.pdf(values, cov=covariance) * (2 * np.pi) ** 6, rel=1e-6
    )


@pytest.mark.parametrize("multiple", [1.0, 0.0, -1.0])
def test_line_finds_the_multiple(covariance, multiple):
    values, guess = np.random.default_rng(4).normal(size=(2, 12))
    found = ScaledPriorMean.fit(Covariance(0.01 * covariance), 0.1 * values + multiple * guess, guess)
    assert found.slope == pytest.approx(multiple, abs=0.15)
    assert 0 < found.std < 0.5


def test_guess_is_the_same_in_pieces_and_screen_shows_the_sources(valley):
    source = some_of(valley, 50)
    pieces, whole = TransferPrior(valley.candidates, source), TransferPrior(valley.candidates, source)
    rows = np.arange(600)
    parted = np.concatenate([pieces.predict(rows[:7]), pieces.predict(rows[5:])])
    assert parted[7:] == pytest.approx(whole.predict(rows)[5:])
    assert set(source.rows.tolist()) <= set(whole.promising().tolist())


@pytest.mark.parametrize("name", ["surrogate", "random", "tpe", "anneal", "grid"])
def test_proposals_are_unseen_until_the_space_is_exhausted(valley, name):
    sampler = warm_started(make_sampler(name, valley.candidates, 0), some_of(valley, 30), 0)
    sampler.skip(5)
    seen: list[int] = []
    while len(seen) < 40:
        rows = sampler.propose(8)
        assert len(rows) == 8
        for row in rows:
            sampler.observe(row, None if row % 9 == 0 else float(valley.seconds[row]))
        seen += rows
    assert len(set(seen)) == len(seen)
    assert 5 not in seen
    for row in set(range(600)) - set(seen):
        sampler.skip(row)
    assert sampler.propose(3) == []


def test_equal_seeds_propose_equal_configurations(valley):
    source = some_of(valley, 50)
    first, second = (search(valley, warm(valley, source, 4), 20) for _ in range(2))
    assert first.ratios.tolist() == second.ratios.tolist()


def test_results_transfer_by_name_and_value(tmp_path):
    (tmp_path / "source.csv").write_text("y,x,time_ms\nrow,4,1\nrow,8,2\nboth,4,3\n")
    (tmp_path / "target.csv").write_text("x,y,time_ms\n2,row,1\n4,row,2\n4,column,3\n8,row,4\n")
    source, target = load_recorded(tmp_path / "source.csv"), load_recorded(tmp_path / "target.csv")
    found = translate(source.candidates, measured_rows(source, np.arange(3)), target.candidates)
    assert found.rows.tolist() == [1, 3]
    assert np.exp(found.values) * 1e3 == pytest.approx([1, 2])
    with pytest.raises(UsageError, match="--warm-start source: 2 of its 3 configurations are in target; at least 10"):
        transferred(source, target)


def write_tensor_core(path: Path, names: str, values: str) -> Candidates:
    """Write a recording of tensor_core beside two lines of register_tile, which has STAGING as well."""
    other = ("CHANNELS", "STAGING", "TILE_M")
    lines = [f"template,{names},time_ms", f"tensor_core,{values},1"]
    for staging in ("plain", "async"):
        given = dict(zip(other, ("0", staging, "2"), strict=True))
        lines.append("register_tile," + ",".join(given.get(name, "") for name in names.split(",")) + ",2")
    path.write_text("\n".join(lines) + "\n")
    return load_recorded(path).candidates


@pytest.mark.parametrize(
    ("names", "values", "rows"),
    [
        ("TILE_M,CHANNELS,STAGING,SHIFTS", "8,2,plain,1", [0, 1, 2]),
        ("TILE_M,CHANNELS,STAGING,SHIFTS", "8,2,async,1", [1, 2]),  # not what the source's configuration is now
        ("TILE_M,CHANNELS,STAGING,SHIFTS", "8,2,plain,2", [1, 2]),
        ("TILE_M,CHANNELS,STAGING,UNHEARD", "8,2,plain,7", [1, 2]),  # another template of this name
    ],
)
def test_recording_of_an_older_template_takes_first_choices(tmp_path, names, values, rows):
    source = write_tensor_core(tmp_path / "source.csv", "TILE_M,CHANNELS,STAGING", "8,2,")
    target = write_tensor_core(tmp_path / "target.csv", names, values)
    known = Observations.of(rows=np.arange(3), values=np.zeros(3), variances=np.zeros(3))
    assert sorted(translate(source, known, target).rows.tolist()) == rows


def test_simulate_command_begins_with_a_source_recording(capsys, valley, tmp_path):
    write_valley(tmp_path / "space.csv", 64, 3)
    file = str(tmp_path / "space.csv")
    code, out, err = tune(capsys, "simulate", file, "--warm-start", file, "--seeds", "2", "--trials", "20")
    assert code == 0, err
    assert "100%" in out
    (tmp_path / "other.csv").write_text("a,time_ms\n1,1\n2,2\n")
    code, _, err = tune(capsys, "simulate", file, "--warm-start", str(tmp_path / "other.csv"))
    assert (code, err.count("\n")) == (2, 1)
    assert "--warm-start other: 0 of its 2 configurations" in err


@pytest.fixture
def store(tmp_path):
    """A store with a study of each kind that could be a source, and an empty one of B=10 to give to."""
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as opened:
        for name, count in (("sp18/conv1", 40), ("sp18/conv2", 20), ("fa18/conv2", 5)):
            handle = opened.study(toy_key(name, batch=50), ENVIRONMENT, TEMPLATES)
            handle.record_all([toy_ok(n, 1e-3 + 1e-5 * n) for n in range(count)])
        opened.study(toy_key("fa19/conv2", batch=50), ENVIRONMENT, TEMPLATES)
        alone = replace(toy_key("fa17/conv1"), templates=("other",))
        opened.study(alone, ENVIRONMENT, (OTHER,))
        yield opened


def find(store: Store, name: str, templates: tuple[KernelTemplate, ...] = TEMPLATES, sampler: str = "surrogate"):
    options = RunOptions(
        problem=LAYER, device="cpu", templates=templates, storage="", sampler=sampler, trials=1, warm_start=name
    )
    store.study(toy_key(batch=10), ENVIRONMENT, TEMPLATES)
    return find_source(store, toy_key(batch=10), enumerate_space(templates, LAYER, LIMITS), options)


def test_nearest_study_is_the_source(store):
    source = find(store, "auto")
    assert source.study.startswith("sp18/conv2 cpu B50")
    assert (len(source.known), source.results) == (20, 20)
    assert "20 of its 20 results are of configurations here" in str(source)
    assert find(store, "sp18/conv1").study.startswith("sp18/conv1")


def grown(template: KernelTemplate) -> KernelTemplate:
    """Return a template that has got another parameter, and whose widths are no longer all offered."""
    width, *others = template.parameters
    fresh = Parameter(name="FRESH", choices=("plain", "async"), doc="what was added")
    return replace(template, parameters=(replace(width, choices=(8, 16)), *others, fresh))


def test_source_of_an_older_template_takes_first_choices(store):
    source, space = find(store, "auto", templates=(grown(TOY),)), enumerate_space((grown(TOY),), LAYER, LIMITS)
    assert (len(source.known), source.results) == (14, 20)  # a third of them are 32 wide
    assert {space[row].as_dict()["FRESH"] for row in source.known.rows.tolist()} == {"plain"}


def test_carry_over_takes_nothing_of_an_older_template(store):
    space = enumerate_space((grown(TOY),), LAYER, LIMITS)
    assert all(space.find(toy_configuration(number)) is None for number in range(20))


def test_auto_leaves_plain_samplers_and_unlike_templates_alone(store):
    assert find(store, "off") is None
    assert find(store, "auto", sampler="grid") is None
    assert find(store, "auto", templates=(OTHER,)) is None


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fa17/conv1", "its templates are other, this run's toy; name a study of one of these, or off"),
        ("fa18/conv2", "5 of its 5 results are of configurations here; at least 10 are needed"),
        ("fa19/conv2", "it has no results yet; tune it first, or name another, or off"),
        ("sp18/conv2 cpu B10", "continues that very study"),
        ("conv9", "did you mean"),
        ("", "there are: "),
    ],
)
def test_source_that_cannot_give_is_one_line(store, name, says):
    with pytest.raises(UsageError) as caught:
        find(store, name, templates=(TOY,))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def three_trials(folder: Path, template: KernelTemplate, layer: ConvLayer, warm_start: str) -> RunOptions:
    return RunOptions(
        problem=layer,
        device="cpu",
        templates=(template,),
        storage=f"sqlite:///{folder}/tuner.db",
        sampler="surrogate",
        trials=3,
        warm_start=warm_start,
    )


def test_run_says_where_it_begins(tmp_path):
    template = faulty("none", threads=tuple(range(1, 30)))
    run(tmp_path, template, trials=12)
    watcher = Silent()
    report = tune_layer(three_trials(tmp_path, template, SMALL_LAYER.with_batch(8), "auto"), watcher)
    assert report.progress.done == 3
    assert any(line.startswith("warm start from 'C2H12W11M3K3 cpu B9") for line in watcher.lines), watcher.lines


def test_useless_source_leaves_no_empty_study(tmp_path):
    template = faulty("none", threads=tuple(range(1, 30)))
    options = three_trials(tmp_path, template, SMALL_LAYER, "conv9")
    with pytest.raises(UsageError, match="has no studies; start one"):
        tune_layer(options, Silent())
    with Store.open(options.storage) as store:
        assert store.studies() == []
