"""``--time`` holds for the whole command: the search leaves time to the finals, and nothing is waited for beyond it."""

from __future__ import annotations

import math
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
from faulty import faulty
from small_run import LAYER, Silent, run
from toy_store import changed, toy_failure, toy_ok

from tuner.bench.protocol import Heat
from tuner.bench.rounds import interleave
from tuner.cli.support.ending import ending
from tuner.devices.compiler import Compiler
from tuner.results import Costs, Result
from tuner.storage import Store
from tuner.tuning import Report, RunOptions, tune
from tuner.tuning.budget import CLOSING, Budget, SearchClock, fitting, longer, pass_seconds, sample_seconds
from tuner.tuning.rematch import more_rounds


def timed(number: int, median: float, sample: float = 0.02, check: float = 0.1) -> Result:
    """Return a result whose samples took ``sample`` seconds each, with the cooling before them."""
    result = toy_ok(number, median)
    assert result.measurement is not None
    taken = sample * (len(result.measurement.samples) + 1)
    return changed(result, costs=Costs(check=check, measure=taken))


FIVE = [timed(number, 1e-3 * (1 + number)) for number in range(5)]


def begun(seconds: float | None, elapsed: float) -> Budget:
    return Budget(seconds, time.monotonic() - elapsed)


def test_a_pass_takes_its_checks_and_its_rounds() -> None:
    assert sample_seconds(FIVE[0]) == pytest.approx(0.02)
    assert sample_seconds(timed(0, 1.0)) == pytest.approx(1.2)
    one = pass_seconds(FIVE, Heat(fewest=7, most=7))
    assert one == pytest.approx(0.3 + 5 * (0.2 + 0.04) + 7 * 5 * 0.02)
    assert pass_seconds(FIVE, Heat(seconds=2.0)) == pytest.approx(0.3 + 1.2 + 2.0)
    assert pass_seconds([], Heat()) == 0.0


def test_search_leaves_time_for_the_finals_but_no_more_than_a_third() -> None:
    assert begun(None, 1e6).kept(FIVE) == 0.0
    assert begun(None, 1e6).left == math.inf
    assert begun(90.0, 0.0).kept(FIVE) == pytest.approx(2 * pass_seconds(FIVE, Heat()))
    assert begun(90.0, 0.0).kept([timed(n, 1.0) for n in range(5)]) == pytest.approx(30.0)
    assert longer(4.0) == Heat(fewest=3, most=90, seconds=4.0, limit=4.0)
    assert begun(90.0, 0.0).kept(FIVE, suspects=2) == pytest.approx(2 * pass_seconds(FIVE, Heat()) + 10.0)
    assert begun(40.0, 10.0).left == pytest.approx(30.0 - CLOSING, abs=5.0)


def test_search_clock_lets_suspects_in_while_there_is_time() -> None:
    early, late = SearchClock(begun(1000.0, 0.0), 1), SearchClock(begun(1000.0, 999.0), 1)
    assert early.left(FIVE) > 900
    assert early.suspect(FIVE)
    assert late.left(FIVE) < 0
    assert not late.suspect(FIVE)
    assert SearchClock(begun(None, 1e9), 1).suspect(FIVE)


def test_finals_take_as_many_as_fit_and_keep_the_earlier_winner_among_them() -> None:
    everyone, champion = [*FIVE, timed(9, 9e-3)], timed(9, 9e-3).configuration.key
    whole = fitting(everyone, 60.0, champion)
    assert whole is not None
    assert (list(whole[0]), whole[1].fewest) == (everyone, 7)
    tight = fitting(everyone, pass_seconds(FIVE[:3], Heat(fewest=3, most=3)), champion)
    assert tight is not None
    assert ([each.seconds for each in tight[0]], tight[1].fewest) == ([1e-3, 2e-3, 9e-3], 3)
    one = pass_seconds(FIVE[:1], Heat(fewest=3, most=3))
    assert fitting(everyone, one, champion) is None
    alone = fitting(everyone, one, "")
    assert alone is not None
    assert list(alone[0]) == FIVE[:1]
    assert fitting(everyone, 0.1, "") is None
    assert fitting([], 60.0, "") is None
    unlimited = fitting(FIVE, math.inf, "")
    assert unlimited is not None
    assert unlimited[1] == Heat()


class Ticking:
    """A trial whose samples take a second of a clock that only it moves."""

    now = 0.0

    def warm_up(self) -> float:
        return self.counted_sample()

    def counted_sample(self) -> float:
        Ticking.now += 1.0
        return 1.0


@pytest.mark.parametrize(
    ("heat", "rounds"),
    [
        (Heat(), 7),
        (Heat(seconds=1e9), 30),
        (Heat(seconds=1e9, limit=20.0), 10),
        (Heat(limit=0.0), 3),
        (Heat(fewest=3, seconds=0.0), 3),
    ],
)
def test_a_pass_ends_at_its_limit_but_not_before_three_rounds(
    monkeypatch: pytest.MonkeyPatch, heat: Heat, rounds: int
) -> None:
    monkeypatch.setattr(Ticking, "now", 0.0)
    monkeypatch.setattr("tuner.bench.trial.time.monotonic", lambda: Ticking.now)
    first, second = interleave([Ticking(), Ticking()], heat, 0.0)  # type: ignore[list-item]
    assert len(first) == len(second) == rounds


@pytest.mark.parametrize(("left", "rounds"), [(20.0, True), (1.0, False)])
def test_time_that_the_finals_leave_goes_to_more_rounds_of_the_last(left: float, rounds: bool) -> None:
    failed = toy_failure(9, "crashed")
    more = more_rounds([*FIVE, failed], left)
    assert bool(more) == rounds
    if more:
        chosen, heat = more
        assert chosen == FIVE
        assert heat.limit == pytest.approx(left - 5 * sample_seconds(FIVE[0]))
        assert heat.most * 5 * sample_seconds(FIVE[0]) > left


def left_behind(folder: Path, report: Report) -> tuple[int, int]:
    """Return how many results and claims a run left in the store."""
    with Store.open(f"sqlite:///{folder}/tuner.db") as store:
        handle = store.find_study(report.progress.study)
        return len(handle.results()), len(handle.claims())


def test_compilations_that_do_not_end_are_given_back_when_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Compiler, "submit", lambda *_: Future())
    report = run(tmp_path, faulty("none", threads=(8, 16, 32)), seconds=8.0)
    assert (report.reason, report.progress.done, report.winner) == ("time", 0, None)
    assert left_behind(tmp_path, report) == (0, 0)


def test_trial_that_the_end_of_the_time_cuts_short_is_not_judged(tmp_path: Path) -> None:
    options = RunOptions(
        problem=LAYER,
        device="cpu",
        templates=(faulty("endless"),),
        storage=f"sqlite:///{tmp_path}/tuner.db",
        sampler="grid",
        seconds=8.0,
        trial_timeout=3600.0,
    )
    report = tune(options, Silent())
    assert (report.reason, report.progress.done) == ("time", 0)
    assert left_behind(tmp_path, report) == (0, 0)


def test_last_line_says_that_the_time_ended_before_the_search(tmp_path: Path) -> None:
    report = run(tmp_path, faulty("none"), seconds=0.01)
    assert report.progress.done == 0
    assert ending(report)[-1] == "the 0.01 s were up before the search began; run the same command to continue"
    report.progress.done = 3
    assert ending(report)[-1] == "the 0.01 s were up before the search ended; run the same command to continue"
