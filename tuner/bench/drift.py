"""Compare times of different runs: the same device is slower when warm or busy, and the canary says by how much.

A canary is the reference kernel on the same few rows, timed before each trial (about 2 ms). Times of two moments are
compared by their ratios to the canary of their own moment, but only where it moved by more than its noise.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuner.results import Measurement, Result

LEAST = 0.02  # a canary that moved less has not moved
FEWEST = 5  # canaries that tell a moment's level and noise
AROUND = 9  # canaries whose median stands for the moment of the one in their middle
PAUSE = 120.0  # seconds without a trial between two stretches of trials


def speed_change(then: Sequence[float], now: Sequence[float]) -> float:
    """Return the canary's time now over its time then; exactly 1 where that is within the noise or unknown."""
    if min(len(then), len(now)) < FEWEST:
        return 1.0
    before, after = Measurement(samples=tuple(then)), Measurement(samples=tuple(now))
    change = after.median / before.median
    return change if abs(change - 1) > max(LEAST, before.spread + after.spread) else 1.0


def change_since(result: Result, results: Sequence[Result], now: Sequence[float]) -> str:
    """Say how the canary's time has changed since one of the results; empty where within the noise or unknown."""
    change = _changes(results, now).get(result.configuration.key, 1.0)
    return "" if change == 1.0 else f"the reference kernel takes {change:.2f} of the time it took beside that trial"


def as_of_now(results: Sequence[Result], now: Sequence[float]) -> tuple[list[Result], str]:
    """Return known results with their times in today's seconds, and a line that says so (empty if none changed).

    Args:
        results: As they are in the store, where they stay as measured.
        now: Canaries timed now.
    """
    changes = _changes(results, now)
    moved = [change for change in changes.values() if change != 1.0]
    if not moved:
        return list(results), ""
    line = (
        f"the reference kernel takes {statistics.median(moved):.2f} of the time it took beside {len(moved)} known "
        "results; these are compared by their ratio to it"
    )
    return [_rescaled(result, changes.get(result.configuration.key, 1.0)) for result in results], line


def _changes(results: Sequence[Result], now: Sequence[float]) -> dict[str, float]:
    """Return by each timed result's key how the canary has changed since."""
    return {
        result.configuration.key: speed_change(around, now)
        for stretch in _stretches(results)
        for result, around in _moments(stretch)
    }


def _stretches(results: Sequence[Result]) -> Iterator[list[Result]]:
    """Cut the results that have a canary where there was a pause."""
    timed = sorted((each for each in results if each.measurement and each.measurement.canary), key=_started)
    stretch: list[Result] = []
    for result in timed:
        if stretch and result.started - stretch[-1].started > PAUSE:
            yield stretch
            stretch = []
        stretch.append(result)
    if stretch:
        yield stretch


def _started(result: Result) -> float:
    return result.started


def _moments(stretch: Sequence[Result]) -> Iterator[tuple[Result, list[float]]]:
    canaries = [each.measurement.canary for each in stretch if each.measurement and each.measurement.canary]
    for position, result in enumerate(stretch):
        first = max(0, min(position - AROUND // 2, len(canaries) - AROUND))
        yield result, canaries[first : first + AROUND]


def _rescaled(result: Result, change: float) -> Result:
    measured = result.measurement
    if measured is None or change == 1.0:
        return result
    samples = tuple(change * sample for sample in measured.samples)
    canary = measured.canary and change * measured.canary
    then = replace(measured, samples=samples, canary=canary)
    return replace(result, evaluation=replace(result.evaluation, measurement=then))
