"""End a search by itself: at the device's floor, when continuing would gain too little, or if it was already over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tuner.kernels.space import Space
from tuner.results import Result
from tuner.search.candidates import Candidates
from tuner.storage import Ended
from tuner.tuning.finals import NOISE
from tuner.tuning.gain import GainRule, Look, history_of, least_gain
from tuner.tuning.options import AUTO, RunOptions
from tuner.tuning.progress import Progress
from tuner.tuning.roofline_stop import near_floor


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a search ends: a word for programs, and a line for people."""

    reason: str
    why: str


def at_floor(options: RunOptions, progress: Progress) -> Stop | None:
    """Stop when the best is as fast as the device's ceilings allow, within the noise."""
    if not near_floor(replace(options, stop_at=1 - NOISE), progress):
        return None
    return Stop("floor", f"the best is within {NOISE:.0%} of the device's roofline; nothing can be clearly faster")


def too_little(look: Look) -> Stop | None:
    """Stop when neither the later half of the trials nor a model of them promises a gain."""
    if not look.over:
        return None
    share = "two thirds" if look.long else "half"
    past = f"the last {share} of {look.trials:,} trials gained no more than {look.least:.1%}"
    if look.hopeless:
        return Stop("gain", f"{past}, and a model of them expects {look.expected or 0:.1%} from the next")
    return Stop("gain", f"{past}, although a model of them expected {look.expected or 0:.1%}")


class Stopping:
    """All rules that may end a search early, if the user asked for them.

    Args:
        candidates: The candidates of the space, if already made.
        ended: The end of an earlier run's search of this part of the space.
    """

    def __init__(
        self, space: Space, options: RunOptions, candidates: Candidates | None = None, ended: Ended | None = None
    ) -> None:
        self._space, self._options, self._given, self._ended = space, options, candidates, ended
        self._asked = -1
        self._stop: Stop | None = None
        self._look: Look | None = None

    @cached_property
    def _gain(self) -> GainRule:
        return GainRule(self._given or Candidates.of(self._space))

    @property
    def stop(self) -> Stop | None:
        """Why the search has ended by itself, if it has."""
        return self._stop

    def ask(self, progress: Progress, results: Mapping[str, Result]) -> str:
        """Return the reason to stop now, or nothing; called after each trial, mostly cheap."""
        if self._options.stop == AUTO and progress.done != self._asked:
            self._asked = progress.done
            self._stop = self._was_over(results) or at_floor(self._options, progress) or self._judged(progress, results)
        return self._stop.reason if self._stop else ""

    def _was_over(self, results: Mapping[str, Result]) -> Stop | None:
        """Stop if nothing was added since a search was over."""
        ended = self._ended
        if ended is None or (ended.part, ended.trials) != (str(self._options.only), len(results)):
            return None
        return Stop("over", ended.why)

    def _judged(self, progress: Progress, results: Mapping[str, Result]) -> Stop | None:
        if progress.best is None or not self._gain.due(len(results)):
            return None
        history = history_of(self._space, results)
        self._look = self._gain.look(history, least_gain(progress.best))
        return too_little(self._look)

    def as_ended(self, results: Mapping[str, Result]) -> Ended | None:
        """Return what to store about this search, if it is over."""
        if self._stop is None:
            return None
        return Ended(part=str(self._options.only), trials=len(results), why=self._stop.why)

    def lines(self, results: Mapping[str, Result]) -> tuple[str, ...]:
        """Return lines on what is left unexplored, and why the search stopped or what it was still expected to gain."""
        if self._options.stop != AUTO:
            return ()
        return tuple(filter(None, (unexplored(self._space, results), self._told())))

    def _told(self) -> str:
        """Say why the search is over, or why it was not at the last judgement."""
        look = self._look
        if self._stop is not None:
            return f"the search is over: {self._stop.why}"
        if look is None:
            return ""
        if look.expected is not None:
            return f"after {look.trials:,} trials the next were still expected to gain {look.expected:.1%}"
        return f"the later half of {look.trials:,} trials had still gained {look.lately:.1%}"


def unexplored(space: Space, results: Mapping[str, Result]) -> str:
    """Say how many configurations of each template are untried."""
    placed = (each.configuration for each in results.values() if space.find(each.configuration) is not None)
    tried = Counter(configuration.template for configuration in placed)
    parts = [(part.template.name, len(part) - tried[part.template.name], len(part)) for part in space.parts]
    left = [f"{count:,} of {size:,} {name}" for name, count, size in parts if count]
    return f"left unexplored: {', '.join(left)}" if left else ""
