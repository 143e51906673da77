"""A source study's results as the surrogate's prior mean, and how far they are trusted.

Half of the models know the source. To those, a time is a multiple of the source's prediction plus a Gaussian process of
the remainder, with a prior of its hyperparameters centred on those fitted to the source. After each result the two
halves are compared by how probable they made all results so far, and weighted accordingly in the expected improvement.
A misleading source loses its weight with the first few results; one that is partly right loses it later, or has its
multiple corrected, which may turn negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tuner.search.arrays import Flags, Floats, Indices
from tuner.search.candidates import Candidates
from tuner.search.gp.conditioning import Covariance
from tuner.search.model import Model
from tuner.search.observations import Observations

OPENING = 3  # first trials, alternately the source's fastest and random ones to test it against
MIN_RESULTS = 3  # results before the model leads, while a batch is under way
MIN_DISTANCE = 2  # parameters in which any two of the source's first trials differ
INITIAL_LOG_ODDS = 1.0  # log odds that the source is useful, before anything was measured
NEAR, KEPT = 10, 200  # the source's fastest in a large space: scored with their neighbours, and scored alone
MAX_LOG_ODDS = 30.0  # bound on the log odds, so that no weight is zero
MEAN_SLOPE, SLOPE_STD = 1.0, 1.0  # prior of the multiple of the source's prediction


class TransferPrior:
    """A source study's prediction for every candidate, and its weight.

    Attributes:
        kernel: The kernel fitted to the source.
        weight: The probability that the source is useful, given all results so far.
    """

    def __init__(self, candidates: Candidates, source: Observations) -> None:
        self._candidates = candidates
        self._model = Model(candidates, source)
        self.kernel = self._model.kernel
        self._predictions: Floats = np.full(len(candidates), np.nan)
        self._fastest = source.rows[source.by_value]
        self._opened: list[int] = []
        self.weight = _probability(INITIAL_LOG_ODDS)

    def predict(self, rows: Indices) -> Floats:
        """Return the logarithms of seconds that the source predicts for some rows."""
        missing = np.unique(rows[np.isnan(self._predictions[rows])])
        if len(missing):
            self._predictions[missing] = self._model.predict(missing)
        return self._predictions[rows]

    def promising(self) -> Indices:
        """Return rows that the pool of a large space should include."""
        near = [self._candidates.neighbours(row) for row in self._fastest[:NEAR].tolist()]
        return np.unique(np.concatenate([self._fastest[:KEPT], *near]))

    def next_fastest(self, taken: Flags) -> int | None:
        """Return the source's fastest free row that differs enough from those returned before; None if none is left."""
        choices = self._candidates.choices
        fastest: list[int] = self._fastest.tolist()
        for row in fastest:
            unlike = all(np.count_nonzero(choices[row] != choices[other]) >= MIN_DISTANCE for other in self._opened)
            if unlike and not taken[row]:
                self._opened.append(row)
                return row
        return None

    def merge(self, scores: Floats, evidence: float, guided: Floats, guided_evidence: float) -> Floats:
        """Return the logarithm of the weighted expected improvement of both halves, and update the weight.

        Args:
            scores, evidence: Log expected improvement by the models that do not know the source, and how probable they
                made all results, as a logarithm.
            guided, guided_evidence: The same for those that know it.
        """
        self.weight = _probability(INITIAL_LOG_ODDS + guided_evidence - evidence)
        return np.asarray(np.logaddexp(scores + math.log1p(-self.weight), guided + math.log(self.weight)))


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-min(max(log_odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)))


@dataclass(frozen=True, slots=True)
class ScaledPriorMean:
    """A multiple of a prediction as the prior mean of some values.

    Attributes:
        slope: The multiple.
        std: Its standard deviation.
        log_evidence: How probable the values are with it; for a prediction of zeros, without one.
    """

    slope: float = 0.0
    std: float = 0.0
    log_evidence: float = 0.0

    @classmethod
    def fit(cls, covariance: Covariance, values: Floats, prediction: Floats) -> ScaledPriorMean:
        """Return the multiple for values with this covariance around a multiple of ``prediction``."""
        white, predicted = covariance.whiten(np.column_stack([values, prediction])).T
        sure = 1 / SLOPE_STD**2
        precision = float(predicted @ predicted) + sure
        slope = (float(predicted @ white) + sure * MEAN_SLOPE) / precision
        gain = precision * slope**2 - sure * MEAN_SLOPE**2 - math.log(precision / sure)
        evidence = 0.5 * (gain - float(white @ white)) - covariance.log_root_determinant
        return cls(slope, 1 / math.sqrt(precision), evidence)
