"""A search ends by itself when it has found enough, says why, and never because nothing was tried."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from command import SMALL, tune
from toy_store import ENVIRONMENT, TEMPLATES, TOY, changed, timed, toy_configuration

from tuner.errors import UsageError
from tuner.kernels.space import Space, enumerate_space
from tuner.kernels.template import DeviceLimits
from tuner.problems.conv.layers import find_layer
from tuner.results import Result
from tuner.tuning import Progress, RunOptions, gain
from tuner.tuning.gain import FEWEST, LONG, GainRule, History, Look
from tuner.tuning.roofline_stop import stop_floor
from tuner.tuning.run import is_settled
from tuner.tuning.stopping import Stopping, unexplored

LAYER = find_layer("conv2", 10)
LIMITS = DeviceLimits(
    dialect="opencl", max_threads=4096, max_block=(64, 64, 64), shared_bytes=0, constant_bytes=0, registers=0, warp=1
)
SPACE = enumerate_space(TEMPLATES, LAYER, LIMITS)
ONE = enumerate_space((TOY,), LAYER, LIMITS)
OPTIONS = RunOptions(
    problem=LAYER, device="cpu", templates=TEMPLATES, storage="", sampler="random", seconds=90.0, stop="auto"
)


def progress(seconds: float = 60.0, **more: Any) -> Progress:
    begun = Progress(study="s", problem=LAYER, environment=ENVIRONMENT, space=len(SPACE), trials=None, seconds=seconds)
    return replace(begun, **more)


def result(number: int, seconds: float, spread: float = 0.0) -> Result:
    samples = (seconds * (1 - spread), seconds, seconds * (1 + spread))
    return timed(toy_configuration(number), *samples, fingerprint=str(number))


def search(space: Space, times: list[float], stopping: Stopping | None = None) -> int | None:
    """Feed the rules one trial after another; return after how many they stop."""
    state, results = progress(elapsed=1.0), {}
    stopping = stopping or Stopping(space, OPTIONS)
    for number, seconds in enumerate(times):
        fresh = result(number, seconds)
        results[fresh.configuration.key] = fresh
        state.done += 1
        if state.best is None or seconds < state.best.seconds:
            state.best = fresh
        if stopping.ask(state, results):
            return state.done
    return None


def smooth(number: int) -> float:
    """A time that the parameters explain, least for width 16."""
    values = toy_configuration(number).as_dict()
    wide = abs(math.log2(int(values["TILE_WIDTH"]) / 16))
    return 1e-3 * (1 + wide + 0.2 * (values["GRID_LAYOUT"] == "B,M") + 0.02 * int(values["PADDING"]))


def rough(count: int) -> list[float]:
    """Times that the parameters do not explain."""
    return [1e-3 * (1 + 0.5 * math.sin(37 * number**2)) for number in range(count)]


def test_search_that_has_found_the_best_of_a_plain_space_stops():
    stopping = Stopping(ONE, OPTIONS)
    stopped = search(ONE, [smooth(number) for number in range(250)], stopping)
    assert stopped is not None
    assert FEWEST <= stopped <= 200
    assert stopping.stop is not None
    assert f"of {stopped} trials gained no more than 1.0%, and a model of them expects 0." in stopping.stop.why


def test_search_that_still_improves_goes_on():
    assert search(ONE, [1e-3 * 0.98**number for number in range(150)]) is None


def test_search_among_rough_times_goes_on():
    assert search(ONE, rough(150)) is None


def test_search_among_rough_times_ends_when_most_of_it_was_in_vain():
    stopping = Stopping(ONE, OPTIONS)
    stopped = search(ONE, [0.4e-3, *rough(300)], stopping)
    assert stopped is not None
    assert LONG <= stopped <= 1.2 * LONG
    assert stopping.stop is not None
    assert "the last two thirds of" in stopping.stop.why


def test_search_without_a_success_goes_on():
    stopping, state, results = Stopping(ONE, OPTIONS), progress(), {}
    for state.done in range(1, 2 * FEWEST):
        fresh = changed(result(state.done, 1e-3), outcome="crashed", measurement=None)
        results[fresh.configuration.key] = fresh
        assert stopping.ask(state, results) == ""


def test_gain_of_the_later_trials_is_over_the_best_of_the_first():
    values = np.log([8.0, 4.0, np.nan, 2.0])
    history = History(rows=np.arange(4), values=values, variances=np.zeros(4))
    assert [history.gained(first) for first in (1, 2, 3, 4)] == pytest.approx([3.0, 1.0, 1.0, 0.0])
    failed = History(rows=np.arange(2), values=np.array([np.nan, 0.0]), variances=np.zeros(2))
    assert failed.gained(1) == math.inf


def test_best_at_the_floor_stops_at_once_and_says_so():
    stopping, state = Stopping(SPACE, OPTIONS), progress(done=1)
    roof = stop_floor(OPTIONS, state)
    assert roof is not None
    floor = roof.seconds
    state.best = result(0, floor * 1.2)
    assert stopping.ask(state, {}) == ""
    state.best, state.done = result(0, floor * 1.005), 2
    assert stopping.ask(state, {}) == "floor"
    left, why = stopping.lines({"one": result(0, 1e-3)})
    assert left == "left unexplored: 383 of 384 toy, 6 of 6 other"
    assert "the search is over: the best is within 1% of the device's roofline" in why


def test_nothing_stops_a_search_that_has_a_budget_of_its_own():
    stopping, state = Stopping(SPACE, replace(OPTIONS, stop="off")), progress(done=1)
    state.best = result(0, 1e-12)
    assert stopping.ask(state, {}) == ""
    assert stopping.lines({}) == ()


def test_exhausted_space_leaves_nothing_unexplored():
    everything = {each.key: replace(result(0, 1e-3), configuration=each) for each in SPACE}
    assert unexplored(SPACE, everything) == ""


def test_unknown_stop_is_refused():
    with pytest.raises(UsageError, match="--stop 'never' is unknown; there are: auto, off"):
        replace(OPTIONS, stop="never")


def test_run_says_what_it_left_unexplored(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ("run", *SMALL, "--device", "cpu", "--sampler", "grid", "--trials", "2")
    code, out, err = tune(capsys, *given, "--stop", "auto")
    assert code == 0, err
    assert "left unexplored: " in out
    assert " direct" in out.split("left unexplored: ")[1].splitlines()[0]
    assert "left unexplored" not in tune(capsys, *given)[1]


def test_untried_template_is_worth_going_on_for():
    assert search(SPACE, [smooth(number) for number in range(LONG - 1)]) is None


def test_finished_search_ends_at_once_when_asked_again_until_it_is_told_to_go_on(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("run", *SMALL, "--device", "cpu", "--sampler", "grid")
    with monkeypatch.context() as patched:
        patched.setattr(gain, "FEWEST", 3)
        patched.setattr(GainRule, "look", hopeless)
        code, out, err = tune(capsys, *asked)
    assert code == 0, err
    assert "3 new trials of " in out
    why = "the last half of 3 trials gained no more than 1.0%, and a model of them expects 0.0% from the next"
    assert why in words(out)
    winner = next(line for line in out.splitlines() if line.startswith("direct: "))
    code, out, err = tune(capsys, *asked)
    assert code == 0, err
    assert "0 new trials of " in out
    assert winner in out
    assert words(out).endswith(f"{why} to continue anyway, add --stop off or --trials N to the command")
    assert "1 new trial of " in tune(capsys, *asked, "--trials", "1")[1]


def hopeless(self: GainRule, history: History, least: float) -> Look:
    return Look(trials=len(history), lately=0.0, long=False, untried=False, expected=0.0, least=0.01)


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("reason", "winner", "settled"),
    [("over", object(), True), ("over", None, False), ("gain", object(), False), ("interrupted", None, True)],
)
def test_finals_are_held_where_a_finished_search_has_no_winner_yet(reason, winner, settled):
    assert is_settled(reason, winner) == settled


def test_search_is_not_over_because_its_time_is():
    late = progress(elapsed=59.9)
    stopping, results = Stopping(ONE, OPTIONS), {}
    for number, seconds in enumerate(rough(LONG - 1)):
        fresh = result(number, seconds)
        results[fresh.configuration.key] = fresh
        late.done, late.best = number + 1, min(results.values(), key=lambda each: each.seconds)
        assert stopping.ask(late, results) == ""
