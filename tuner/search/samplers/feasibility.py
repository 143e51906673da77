"""Predict how likely a configuration is to compile and run, from those that did not."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.arrays import Floats
from tuner.search.candidates import Candidates
from tuner.search.gp.kernel import Kernel, Prior
from tuner.search.gp.likelihood import fit
from tuner.search.gp.posterior import PoolPosterior
from tuner.search.samplers.pool import Pool

EDGE = 0.15  # standard deviation added to that of a label, so that no prediction is certain
LEAST = 0.01  # probability of success below which a row is left until the end
HOPELESS = -1e8  # upper bound on the scores of those rows
MOST_KNOWN = 300  # latest results that the model holds
MOST_ADDED = 60  # results added one by one before the model is rebuilt
GROWTH = 1.25  # factor in the number of failures between two fits
STEPS = 20  # iterations of a fit
SMOOTH = Prior.same(length=(0.4, 1.0), share=(0.0, 1.5), exact=(-3.0, 1.5), noise=(-4.6, 1.0))


class FeasibilityModel:
    """A Gaussian process on labels: 0 for a success, -1 for a failure; success is a value above the middle.

    Its hyperparameters start from long length scales, because resource limits cut a space along its logarithmic
    features, and are fitted as failures come in. It holds the last ``MOST_KNOWN`` results.

    Attributes:
        failures: Configurations that failed, by their last result.
    """

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._kernel = Kernel(candidates.model_features, SMOOTH)
        self._labels: dict[int, float] = {}
        self._pool: Pool | None = None
        self._posterior: PoolPosterior | None = None
        self._held: list[int] = []
        self._stale = True
        self._fitted = 0
        self._result: Floats = np.zeros(0)
        self.failures = 0

    def learn(self, index: int, good: bool) -> None:
        """Take the outcome of one row."""
        self.failures += (not good) - (self._labels.get(index, 0.0) < 0)
        self._labels[index] = 0.0 if good else -1.0
        self._stale = True

    def use(self, pool: Pool) -> None:
        """Judge another pool."""
        if pool is not self._pool:
            self._pool, self._posterior = pool, None

    def log_probability(self) -> Floats | float:
        """Return the logarithm of each pool row's probability of success; 0 until something fails."""
        if not self.failures:
            return 0.0
        if self._stale or self._posterior is None:
            self._result = self._evaluate()
            self._stale = False
        return self._result

    def _evaluate(self) -> Floats:
        from scipy.special import log_ndtr

        posterior = self._updated()
        middle = 0.5 + posterior.mean(self._labels_of(self._held))
        result = log_ndtr(middle / np.sqrt(np.maximum(posterior.variance, 0) + EDGE**2))
        return np.asarray(np.where(result < math.log(LEAST), result + 10 * HOPELESS, result))

    def _updated(self) -> PoolPosterior:
        """Return the posterior with the latest results; rebuilt if the pool changed or the failures outgrew it."""
        assert self._pool is not None
        outgrown = self.failures >= GROWTH * self._fitted or len(self._held) > MOST_KNOWN + MOST_ADDED
        if self._posterior is None or outgrown:
            self._held = list(self._labels)[-MOST_KNOWN:]
            codes, noise = self._candidates.codes_of(self._held), np.zeros(len(self._held))
            if outgrown:
                self._fitted = self.failures
                fit(self._kernel, codes, self._labels_of(self._held), noise, STEPS)
            self._posterior = PoolPosterior(self._kernel, self._pool.codes, codes, noise)
        held = set(self._held)
        for row in list(self._labels)[-MOST_ADDED:]:
            if row not in held:
                self._posterior.add(self._candidates.codes_of([row])[0])
                self._held.append(row)
        return self._posterior

    def _labels_of(self, rows: list[int]) -> Floats:
        return np.array([self._labels[row] for row in rows])
