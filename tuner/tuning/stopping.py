"""When a search has done enough: at the device's floor, or when more trials would gain less than the noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tuner.results import Result
from tuner.search.candidates import Candidates, Indices
from tuner.search.model import Known, Model
from tuner.space import Space
from tuner.tuning.finals import NOISE
from tuner.tuning.floor_stop import near_floor
from tuner.tuning.options import AUTO, RunOptions
from tuner.tuning.progress import Progress

FEWEST = 40  # trials before anything is judged
EVERY = 1.15  # the next judgement comes after this many times the trials
IN_A_ROW = 2  # judgements that must agree
HORIZON = 48  # further trials looked ahead at most
DRAWS = 200
WIDEN = 2.0  # the model's deviations; with 1, two of ten replayed searches stopped 20% short, with 2 none
POOL = 3_000
NEAR = 5  # configurations whose neighbours are looked at


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a search ends: a word for programs, a line for people."""

    reason: str
    why: str


def at_floor(options: RunOptions, progress: Progress) -> Stop | None:
    """Stop when the best is as fast as the device's ceilings allow, within the noise."""
    if not near_floor(replace(options, stop_at=1 - NOISE), progress):
        return None
    return Stop("floor", f"the best is within {NOISE:.0%} of the device's floor; nothing can be clearly faster")


class GainRule:
    """Stops when the rest of the budget is expected to gain less than the noise of a measurement.

    The gain is that of the best of the next ``HORIZON`` trials at most, by joint draws of a model of all results so
    far; a search whose second half of trials still gained more than the noise goes on, whatever the model says.
    """

    def __init__(self, space: Space, candidates: Candidates | None = None) -> None:
        self._space, self._given = space, candidates
        self._next = FEWEST
        self._below = 0
        self._bests: list[float] = []
        self.gain: float | None = None

    @cached_property
    def _candidates(self) -> Candidates:
        return self._given or Candidates.of(self._space)

    def judge(self, progress: Progress, results: Mapping[str, Result], budget: int) -> Stop | None:
        """Return whether to stop; to be asked after each trial, cheap except at every few.

        Args:
            budget: How many trials are left.
        """
        tried = progress.known + progress.done
        self._bests.append(progress.best.seconds if progress.best else np.inf)
        if tried < self._next or len(self._bests) < FEWEST // 2 or progress.best is None:
            return None
        self._next = int(tried * EVERY) + 1
        noise = noise_of(progress.best)
        self.gain = expected_gain(self._space, self._candidates, results, min(budget, HORIZON))
        lately = self._bests[len(self._bests) // 2 - 1] / self._bests[-1] - 1
        enough = self.gain is not None and max(self.gain, lately) <= noise
        self._below = self._below + 1 if enough else 0
        if self._below < IN_A_ROW:
            return None
        rest = f"{budget:,} trials" if budget != 1 else "one trial"
        return Stop("gain", f"the {rest} left are expected to gain {self.gain:.1%}, below the noise of {noise:.1%}")


class Stopping:
    """All rules that may end a search early; none unless the user asked for them.

    Args:
        candidates: The space laid out, where somebody has done that already.
    """

    def __init__(self, space: Space, options: RunOptions, candidates: Candidates | None = None) -> None:
        self._space, self._options = space, options
        self._gain = GainRule(space, candidates)
        self._asked = -1
        self._stop: Stop | None = None

    def ask(self, progress: Progress, results: Mapping[str, Result]) -> str:
        """Return the reason to stop now, or nothing."""
        if self._options.stop == AUTO and progress.done != self._asked:
            self._asked = progress.done
            self._stop = at_floor(self._options, progress) or self._gain.judge(progress, results, budget_left(progress))
        return self._stop.reason if self._stop else ""

    def lines(self, results: Mapping[str, Result]) -> tuple[str, ...]:
        """Say why the search stopped, or what was still expected of it, and what is left unexplored."""
        if self._options.stop != AUTO:
            return ()
        gain = self._gain.gain
        rest = "" if gain is None else f"at the last look, more trials could still have gained {gain:.1%}"
        return tuple(filter(None, (self._stop.why if self._stop else rest, unexplored(self._space, results))))


def budget_left(progress: Progress) -> int:
    """Return how many more trials the run's limits allow, at its pace so far."""
    left = [progress.space]
    if progress.trials is not None:
        left.append(progress.trials - progress.done)
    if progress.seconds is not None and progress.elapsed > 0:
        left.append(int((progress.seconds - progress.elapsed) * progress.done / progress.elapsed))
    return max(0, min(left))


def noise_of(best: Result) -> float:
    """Return the relative difference that two measurements near the best can have by chance."""
    return max(NOISE, best.measurement.spread / 1.96 if best.measurement else 0.0)


def expected_gain(space: Space, candidates: Candidates, results: Mapping[str, Result], trials: int) -> float | None:
    """Return by how much the best of some more trials is expected to be faster; None with too few results."""
    known = known_of(space, results)
    if len(known) < FEWEST // 2:
        return None
    model = Model(candidates, known)
    tried = {index for each in results.values() if (index := space.find(each.configuration)) is not None}
    pool = _pool(candidates, known, tried)
    if not len(pool) or trials < 1:
        return 0.0
    best = float(known.values.min())
    mean, deviation = model.uncertain(pool)
    hopeful = pool[np.argsort(mean - WIDEN * deviation)[:trials]]
    reached = np.minimum(model.draws(hopeful, DRAWS, WIDEN).min(axis=1), best)
    return float(np.exp(best - reached).mean() - 1)


def known_of(space: Space, results: Mapping[str, Result]) -> Known:
    """Return the measured results that are in the space, as a model takes them."""
    placed = [(space.find(each.configuration), each) for each in results.values() if each.ok]
    ok = [(index, each) for index, each in placed if index is not None]
    measured = [each.measurement for _, each in ok if each.measurement]
    return Known(
        rows=np.array([index for index, _ in ok], dtype=np.int64),
        values=np.log([each.median for each in measured]),
        variances=np.array([(each.spread / 1.96) ** 2 + 0.01 * each.pruned for each in measured]),
    )


def _pool(candidates: Candidates, known: Known, tried: set[int]) -> Indices:
    """Return untried rows: all of a small space, else neighbours of the fastest and random ones."""
    if len(candidates) <= POOL:
        rows = np.arange(len(candidates))
    else:
        near = [candidates.neighbours(int(row)) for row in known.rows[np.argsort(known.values)[:NEAR]]]
        drawn = np.random.default_rng(len(known)).integers(0, len(candidates), POOL)
        rows = np.unique(np.concatenate([*near, drawn]))
    return rows[~np.isin(rows, np.fromiter(tried, dtype=np.int64, count=len(tried)))]


def unexplored(space: Space, results: Mapping[str, Result]) -> str:
    """Say how many configurations of each template nobody has tried."""
    placed = (each.configuration for each in results.values() if space.find(each.configuration) is not None)
    tried = Counter(configuration.template for configuration in placed)
    parts = [(part.template.name, len(part) - tried[part.template.name], len(part)) for part in space.parts]
    left = [f"{count:,} of {size:,} {name}" for name, count, size in parts if count]
    return f"left unexplored: {', '.join(left)}" if left else ""
