"""When a search is over because more of it would gain too little.

The rule, in words. A search of at least ``FEWEST`` trials is over when

- the later half of its trials found nothing that is faster than the earlier half's best by more than the least gain
  that counts: 1%, or the noise of a measurement where that is larger; and
- a model of all results expects no more than that of the next ``HORIZON`` trials as well, with its deviations taken
  ``WIDEN`` times, and it has results of every template; or else the last two thirds of ``LONG`` trials and more
  brought nothing, whatever is expected.

It is asked at every tenth more trials. Alone, the first would end a search that was lucky early, and the second one
that the model does not understand; and a model whose deviations are wide never ends one in a large space.
``tests/benchmarks/stopping.py`` says what that gives on recorded spaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tuner.kernels.space import Space
from tuner.results import Result
from tuner.search.arrays import Floats, Indices
from tuner.search.candidates import Candidates
from tuner.search.model import Model
from tuner.search.observations import Observations
from tuner.tuning.finals import NOISE

FEWEST = 100  # trials before anything is judged
LONG = 240  # from here on a model that expects more may be overruled
EVERY = 1.1  # the next judgement comes after this many times the trials
HORIZON = 48  # further trials looked ahead, whether or not this run has time for them
DRAWS = 200
WIDEN = 1.5
POOL = 3_000
NEAR = 5  # configurations whose neighbours are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Trials in their order.

    Attributes:
        rows: Their numbers among the candidates.
        values: Logarithms of their seconds; NaN for a failure.
        variances: Of those, by measurement.
    """

    rows: Indices
    values: Floats
    variances: Floats

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def known(self) -> Observations:
        """What was measured."""
        good = ~np.isnan(self.values)
        return Observations.of(rows=self.rows[good], values=self.values[good], variances=self.variances[good])

    def gained(self, first: int) -> float:
        """Return by how much the best is faster than that of the ``first`` trials; infinite if those failed."""
        best, before = (np.fmin.reduce(values, initial=np.inf) for values in (self.values, self.values[:first]))
        return float(np.exp(before - best) - 1) if np.isfinite(before) else np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one judgement found.

    Attributes:
        lately: What the later half of the trials gained.
        long: The later two thirds gained nothing that counts, and there are many.
        untried: There are templates of which nothing was tried.
        expected: What the next trials are expected to gain; None where the half was reason enough to go on.
        least: The gain that counts.
    """

    trials: int
    lately: float
    long: bool
    untried: bool
    expected: float | None
    least: float

    @property
    def over(self) -> bool:
        return self.lately <= self.least and (self.hopeless or self.long)

    @property
    def hopeless(self) -> bool:
        """Nothing that counts is expected."""
        return self.expected is not None and self.expected <= self.least and not self.untried


class GainRule:
    """Judges a search as it goes; see the head of this file."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._templates = np.unique(candidates.groups)
        self._next = FEWEST

    def due(self, trials: int) -> bool:
        """Say whether to judge after this many trials."""
        return trials >= self._next

    def look(self, history: History, least: float) -> Look:
        """Judge a search.

        Args:
            least: The gain that counts.
        """
        count = len(history)
        self._next = int(count * EVERY) + 1
        lately, long = history.gained(count // 2), count >= LONG and history.gained(count // 3) <= least
        expected = expected_gain(self._candidates, history, HORIZON) if lately <= least else None
        untried = not np.isin(self._templates, self._candidates.groups[history.rows]).all()
        return Look(trials=count, lately=lately, long=long, untried=untried, expected=expected, least=least)


def least_gain(best: Result) -> float:
    """Return the gain that counts: what two measurements near the best can differ by chance, but 1% at least."""
    return max(NOISE, best.measurement.spread / 1.96 if best.measurement else 0.0)


def history_of(space: Space, results: Mapping[str, Result]) -> History:
    """Return the results that are in the space, in their order, as the rule takes them."""
    placed = [(space.find(each.configuration), each) for each in results.values()]
    inside = [(row, each) for row, each in placed if row is not None]
    return History(
        rows=np.array([row for row, _ in inside], dtype=np.int64),
        values=np.array([_value(each) for _, each in inside]),
        variances=np.array([_variance(each) for _, each in inside]),
    )


def known_of(space: Space, results: Mapping[str, Result]) -> Observations:
    """Return the measured results that are in the space, as a model takes them."""
    return history_of(space, results).known


def _value(result: Result) -> float:
    return float(np.log(result.seconds)) if result.ok else np.nan


def _variance(result: Result) -> float:
    measured = result.measurement
    return (measured.spread / 1.96) ** 2 + 0.01 * measured.pruned if measured else 0.0


def expected_gain(candidates: Candidates, history: History, trials: int) -> float | None:
    """Return by how much the best of some more trials is expected to be faster; None with too few results."""
    known = history.known
    if len(known) < 3:
        return None
    model = Model(candidates, known)
    pool = _pool(candidates, known, history.rows)
    if not len(pool) or trials < 1:
        return 0.0
    best = float(known.values.min())
    mean, deviation = model.uncertain(pool)
    hopeful = pool[np.argsort(mean - WIDEN * deviation)[:trials]]
    reached = np.minimum(model.draws(hopeful, DRAWS, WIDEN).min(axis=1), best)
    return float(np.exp(best - reached).mean() - 1)


def _pool(candidates: Candidates, known: Observations, tried: Indices) -> Indices:
    """Return untried rows: all of a small space, else neighbours of the fastest and random ones."""
    if len(candidates) <= POOL:
        rows = np.arange(len(candidates))
    else:
        near = [candidates.neighbours(int(row)) for row in known.rows[np.argsort(known.values)[:NEAR]]]
        drawn = np.random.default_rng(len(known)).integers(0, len(candidates), POOL)
        rows = np.unique(np.concatenate([*near, drawn]))
    return rows[~np.isin(rows, tried)]
