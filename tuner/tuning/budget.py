"""The seconds of a whole command, from its first line to its last, and what of them is kept for its end."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.bench.protocol import Heat
from tuner.results import Result
from tuner.tuning.finals import FEW_ROUNDS, FINALISTS, LONGER, NOISY

CLOSING = 1.5  # seconds: the note, the report, and the processes' end
FIXED = 0.3  # seconds of a heat, however short its launches
HEATS = 2  # that the search leaves room for
EVERY = 1.0  # seconds between looks at what the finals will take
MOST_KEPT = 1 / 3  # of all seconds, for the finals
SUSPECT_SECONDS = 5.0  # for one suspect of an interrupted run
TRIAL_SECONDS = 3.0  # that a trial may take beyond the search's end, at least


@dataclass(frozen=True, slots=True)
class Budget:
    """The clock of one command.

    Attributes:
        seconds: For all of it; None: no limit.
        started: When it began, by ``time.monotonic``.
    """

    seconds: float | None
    started: float

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds until the closing must begin; infinite without a limit, below 0 when it is late."""
        return math.inf if self.seconds is None else self.seconds - CLOSING - self.elapsed

    def kept(self, results: Iterable[Result], suspects: int = 0) -> float:
        """Return how many seconds the search leaves to the finals and to suspects, by what its trials took so far."""
        if self.seconds is None:
            return 0.0
        best = heapq.nsmallest(FINALISTS, (each for each in results if each.ok), key=lambda each: each.seconds)
        noisy = bool(best and best[0].measurement and best[0].measurement.spread > NOISY)
        finals = HEATS * heat_seconds(best, Heat()) + noisy * heat_seconds(best, longer(math.inf))
        return min(finals, MOST_KEPT * self.seconds) + min(suspects * SUSPECT_SECONDS, self.seconds / 5)


class SearchClock:
    """How long a search may still take; what it must leave to the rest is looked at anew each second.

    Attributes:
        lost: Seconds that the worker needs to prepare again before the finals.
    """

    def __init__(self, budget: Budget, suspects: int) -> None:
        self._budget, self._suspects, self._at, self._kept = budget, suspects, -math.inf, 0.0
        self.lost = 0.0

    def left(self, results: Iterable[Result]) -> float:
        """Return the seconds left to the search, by its results so far; infinite without a limit."""
        elapsed = self._budget.elapsed
        if elapsed - self._at >= EVERY:  # medians of thousands of results cost as much as a trial
            self._at, self._kept = elapsed, self._budget.kept(results, self._suspects)
        return self._budget.left - self._kept

    @property
    def left_for_finals(self) -> float:
        """Seconds left to the finals, of which a lost worker takes some to prepare again."""
        return self._budget.left - self.lost

    def suspect(self, results: Iterable[Result]) -> bool:
        """Say whether there is time for one more suspect before the finals; it counts as tried."""
        self._suspects = max(0, self._suspects - 1)
        self._kept = self._budget.kept(results, self._suspects)
        return self._budget.left - self._kept >= TRIAL_SECONDS


def longer(left: float) -> Heat:
    """Return a heat for noisy finalists, as long as ``left`` seconds allow."""
    usual = Heat()
    seconds = min(left, LONGER * usual.seconds)
    return Heat(fewest=FEW_ROUNDS, most=LONGER * usual.most, seconds=seconds, limit=left)


def heat_seconds(entering: Sequence[Result], heat: Heat) -> float:
    """Return about how long a heat takes: each is checked twice and warmed up, then sampled in turn."""
    if not entering:
        return 0.0
    rounds = sum(map(sample_seconds, entering))
    before = FIXED + sum(2 * each.costs.check + 2 * sample_seconds(each) for each in entering)
    return before + max(heat.fewest * rounds, min(heat.most * rounds, heat.seconds))


def sample_seconds(result: Result) -> float:
    """Return about what a sample takes, the cooling of the caches before it included."""
    taken = len(result.measurement.samples) + 1 if result.measurement and not result.settled else math.inf
    return max(1.2 * result.seconds, result.costs.measure / taken)


def fitting(chosen: Sequence[Result], left: float, champion: str) -> tuple[Sequence[Result], Heat] | None:
    """Return as many finalists as can be measured in time, the earlier winner among them, and how; None if none can.

    Args:
        chosen: The fastest first.
        left: Seconds.
        champion: The earlier winner's key; it is not deposed by one it was not measured beside.
    """
    for count in range(len(chosen), 0, -1):
        some = _keeping(chosen, count, champion)
        for fewest in (Heat().fewest, FEW_ROUNDS):
            heat = Heat(fewest=fewest, seconds=min(Heat().seconds, max(0.0, left)), limit=left)
            if some and heat_seconds(some, Heat(fewest=fewest, most=fewest)) <= left:
                return some, heat
    return None


def _keeping(chosen: Sequence[Result], count: int, champion: str) -> list[Result]:
    """Return the first ``count``, with the champion in place of the last if it is not among them."""
    some = list(chosen[:count])
    defending = [each for each in chosen[count:] if each.configuration.key == champion]
    if not defending:
        return some
    return some[:-1] + defending if count > 1 else []
