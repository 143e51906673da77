"""A donor's results as the surrogate's prior mean, and how far they are believed.

Beside the opinions that know nothing of the donor stand as many guided ones. To those, a time is a multiple of the
donor's guess and a Gaussian process of what that leaves, whose hyperparameters are expected near the donor's. After
each result both sides are asked how probable they made all results so far, and the expected improvement is theirs in
proportion. A misleading donor loses its weight with the first few results; one that is right in part loses it later, or
has its multiple corrected, which may turn negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tuner.search.candidates import Candidates, Floats, Indices
from tuner.search.model import Known, Model

if TYPE_CHECKING:
    from tuner.search.opinion import Opinion
    from tuner.search.surrogate import SurrogateSampler

OPENING = 3  # trials, by turns the donor's and random ones to hold it against
FEW = 3  # results without which a batch goes on like that
APART = 2  # parameters in which the donor's first trials differ
SURE = 1.0  # logarithm of the odds of the donor before anything was measured
NEAR, KEPT = 10, 200  # of a large space on screen: the donor's fastest, these with their neighbours
FAR = 30.0  # logarithm of odds beyond which they do not go


class Guide:
    """A donor's guess of every candidate, and the weight that it has.

    Attributes:
        weight: The probability that the donor's guess is of use, by all results so far.
    """

    def __init__(self, candidates: Candidates, donor: Known) -> None:
        self._candidates = candidates
        self._model = Model(candidates, donor)
        self.kernel = self._model.kernel
        self._guesses: Floats = np.full(len(candidates), np.nan)
        self._fastest = donor.rows[np.argsort(donor.values, kind="stable")]
        self._first: list[int] = []
        self.weight = _probability(SURE)

    def guess(self, rows: Indices) -> Floats:
        """Return the logarithms of seconds that the donor expects of some rows."""
        missing = np.unique(rows[np.isnan(self._guesses[rows])])
        if len(missing):
            self._guesses[missing] = self._model.predict(missing)
        return self._guesses[rows]

    def promising(self) -> Indices:
        """Return rows that a large space's screen should not miss."""
        near = [self._candidates.neighbours(row) for row in self._fastest[:NEAR].tolist()]
        return np.unique(np.concatenate([self._fastest[:KEPT], *near]))

    def opening(self, sampler: SurrogateSampler, tried: int) -> int | None:
        """Return one of the first rows to try; None once the model may lead."""
        waiting = bool(sampler.pending) and len(sampler.seen) < FEW
        if tried >= OPENING and not waiting:
            return None
        return sampler.draw() if tried % 2 else self._next_fastest(sampler)

    def _next_fastest(self, sampler: SurrogateSampler) -> int | None:
        choices = self._candidates.choices
        fastest: list[int] = self._fastest.tolist()
        for row in fastest:
            unlike = all(np.count_nonzero(choices[row] != choices[other]) >= APART for other in self._first)
            if unlike and not sampler.taken[row]:
                self._first.append(row)
                return row
        return None

    def merge(self, scores: Floats, guided: Floats, opinions: Sequence[Opinion], others: Sequence[Opinion]) -> Floats:
        """Return the logarithm of the improvement that ``opinions`` and the guided ``others`` expect together."""
        self.weight = _probability(SURE + _evidence(others) - _evidence(opinions))
        return np.asarray(np.logaddexp(scores + math.log1p(-self.weight), guided + math.log(self.weight)))


def _evidence(opinions: Sequence[Opinion]) -> float:
    return float(np.mean([opinion.evidence for opinion in opinions if opinion.fitted]))


def _probability(odds: float) -> float:
    return 1 / (1 + math.exp(-min(max(odds, -FAR), FAR)))
