"""Decide that a search is over because continuing would gain too little.

The rule: a search of at least ``FEWEST`` trials is over when

- the later half of its trials improved on the earlier half's best by no more than the least gain that counts: 1%, or
  the noise of a measurement where that is larger; and
- a model of all results, with its standard deviations multiplied by ``WIDEN``, expects no more than that from the next
  ``HORIZON`` trials either, and it has results of every template; or else the last two thirds of at least ``LONG``
  trials gained nothing, whatever the model expects.

It is applied each time the number of trials has grown by a tenth. The first condition alone would end a search that was
lucky early, the second alone one that the model does not understand; and a model with wide deviations never ends a
search of a large space. ``tests/benchmarks/stopping.py`` measures the rule on recorded spaces.
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

FEWEST = 100  # trials before the first judgement
LONG = 240  # trials from which a model that expects more may be overruled
EVERY = 1.1  # growth in the number of trials between two judgements
HORIZON = 48  # further trials whose gain is predicted, whether or not this run has time for them
DRAWS = 200
WIDEN = 1.5
POOL = 3_000
NEAR = 5  # fastest configurations whose neighbours are considered


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Trials in order.

    Attributes:
        rows: Their numbers among the candidates.
        values: Logarithms of their seconds; NaN for a failure.
        variances: Variances of the values due to measurement noise.
    """

    rows: Indices
    values: Floats
    variances: Floats

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def known(self) -> Observations:
        """The successful trials."""
        good = ~np.isnan(self.values)
        return Observations.of(rows=self.rows[good], values=self.values[good], variances=self.variances[good])

    def gained(self, first: int) -> float:
        """Return by how much the best is faster than that of the ``first`` trials; infinite if those failed."""
        best, before = (np.fmin.reduce(values, initial=np.inf) for values in (self.values, self.values[:first]))
        return float(np.exp(before - best) - 1) if np.isfinite(before) else np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The findings of one judgement.

    Attributes:
        lately: Relative gain of the later half of the trials.
        long: There are many trials, and the later two thirds gained nothing that counts.
        untried: Some template has no trials yet.
        expected: Expected relative gain of the next trials; None if the later half was reason enough to continue.
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
        """Whether no gain that counts is expected."""
        return self.expected is not None and self.expected <= self.least and not self.untried


class GainRule:
    """Judges a search as it proceeds; see the head of this file."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._templates = np.unique(candidates.groups)
        self._next = FEWEST

    def due(self, trials: int) -> bool:
        """Whether to judge after this many trials."""
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
    """Return the least gain that counts: the chance difference of two measurements near the best, but at least 1%."""
    return max(NOISE, best.measurement.spread / 1.96 if best.measurement else 0.0)


def history_of(space: Space, results: Mapping[str, Result]) -> History:
    """Return the results that are in the space, in order, as the rule needs them."""
    placed = [(space.find(each.configuration), each) for each in results.values()]
    inside = [(row, each) for row, each in placed if row is not None]
    return History(
        rows=np.array([row for row, _ in inside], dtype=np.int64),
        values=np.array([_value(each) for _, each in inside]),
        variances=np.array([_variance(each) for _, each in inside]),
    )


def known_of(space: Space, results: Mapping[str, Result]) -> Observations:
    """Return the measured results that are in the space, as a model needs them."""
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
