"""The time of a whole command, and how much of it is reserved for the finals and the report."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.bench.protocol import Heat
from tuner.results import Result
from tuner.tuning.finals import FEW_ROUNDS, FINALISTS, LONGER, NOISY

CLOSING = 1.5  # seconds for the note, the report, and ending the processes
FIXED = 0.3  # fixed seconds of a pass, however short its launches
PASSES_KEPT = 2  # passes that the search leaves time for
EVERY = 1.0  # seconds between estimates of what the finals will take
MOST_KEPT = 1 / 3  # largest share of the time reserved for the finals
SUSPECT_SECONDS = 5.0  # seconds reserved for one suspect of an interrupted run
TRIAL_SECONDS = 3.0  # seconds that a trial may run past the search's end, and the least time left to try a suspect


@dataclass(frozen=True, slots=True)
class Budget:
    """The clock of one command.

    Attributes:
        seconds: The limit; None: no limit.
        started: When it began, by ``time.monotonic``.
    """

    seconds: float | None
    started: float

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds until the command must wind up; infinite without a limit, negative when late."""
        return math.inf if self.seconds is None else self.seconds - CLOSING - self.elapsed

    def kept(self, results: Iterable[Result], suspects: int = 0) -> float:
        """Return the seconds to reserve for the finals and suspects, estimated from the trials so far."""
        if self.seconds is None:
            return 0.0
        best = heapq.nsmallest(FINALISTS, (each for each in results if each.ok), key=lambda each: each.seconds)
        noisy = bool(best and best[0].measurement and best[0].measurement.spread > NOISY)
        finals = PASSES_KEPT * pass_seconds(best, Heat()) + noisy * pass_seconds(best, longer(math.inf))
        return min(finals, MOST_KEPT * self.seconds) + min(suspects * SUSPECT_SECONDS, self.seconds / 5)


class SearchClock:
    """How long a search may still take; what it must leave for the finals is re-estimated each second.

    Attributes:
        lost: Seconds that a replacement worker needs to prepare before the finals.
    """

    def __init__(self, budget: Budget, suspects: int) -> None:
        self._budget, self._suspects, self._at, self._kept = budget, suspects, -math.inf, 0.0
        self.lost = 0.0

    def left(self, results: Iterable[Result]) -> float:
        """Return the seconds left to the search, estimated from its results so far; infinite without a limit."""
        elapsed = self._budget.elapsed
        if elapsed - self._at >= EVERY:  # the medians of thousands of results take as long as a trial
            self._at, self._kept = elapsed, self._budget.kept(results, self._suspects)
        return self._budget.left - self._kept

    @property
    def left_for_finals(self) -> float:
        """Seconds left to the finals, less what a replacement worker needs to prepare."""
        return self._budget.left - self.lost

    def suspect(self, results: Iterable[Result]) -> bool:
        """Whether there is time for one more suspect before the finals; it then counts as tried."""
        self._suspects = max(0, self._suspects - 1)
        self._kept = self._budget.kept(results, self._suspects)
        return self._budget.left - self._kept >= TRIAL_SECONDS


def longer(left: float) -> Heat:
    """Return the limits of a pass over noisy finalists, as long as ``left`` seconds allow."""
    usual = Heat()
    seconds = min(left, LONGER * usual.seconds)
    return Heat(fewest=FEW_ROUNDS, most=LONGER * usual.most, seconds=seconds, limit=left)


def pass_seconds(entering: Sequence[Result], limits: Heat) -> float:
    """Estimate how long a pass takes: each finalist is checked twice and warmed up, then they are sampled in turn."""
    if not entering:
        return 0.0
    rounds = sum(map(sample_seconds, entering))
    before = FIXED + sum(2 * each.costs.check + 2 * sample_seconds(each) for each in entering)
    return before + max(limits.fewest * rounds, min(limits.most * rounds, limits.seconds))


def sample_seconds(result: Result) -> float:
    """Estimate how long a sample takes, including clearing the caches before it."""
    taken = len(result.measurement.samples) + 1 if result.measurement and not result.settled else math.inf
    return max(1.2 * result.seconds, result.costs.measure / taken)


def fitting(chosen: Sequence[Result], left: float, champion: str) -> tuple[Sequence[Result], Heat] | None:
    """Return as many finalists as fit in the time left, the earlier winner among them, and the limits; None if none do.

    Args:
        chosen: The fastest first.
        left: Seconds.
        champion: The earlier winner's key; only a result measured beside it may replace it.
    """
    for count in range(len(chosen), 0, -1):
        some = _keeping(chosen, count, champion)
        for fewest in (Heat().fewest, FEW_ROUNDS):
            limits = Heat(fewest=fewest, seconds=min(Heat().seconds, max(0.0, left)), limit=left)
            if some and pass_seconds(some, Heat(fewest=fewest, most=fewest)) <= left:
                return some, limits
    return None


def _keeping(chosen: Sequence[Result], count: int, champion: str) -> list[Result]:
    """Return the first ``count``, with the champion in place of the last if it is not among them."""
    some = list(chosen[:count])
    defending = [each for each in chosen[count:] if each.configuration.key == champion]
    if not defending:
        return some
    return some[:-1] + defending if count > 1 else []
