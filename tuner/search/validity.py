"""How likely a configuration is to compile and run, learnt from those that did not."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.candidates import Candidates, Floats, Rows
from tuner.search.gp import Kernel, Prior
from tuner.search.posterior import Posterior

EDGE = 0.15
LEAST = 0.01  # rows less likely to run than this are left to the end
HOPELESS = -1e8  # any score of theirs is below this
MOST_KNOWN = 300
SMOOTH = Prior.same(length=(0.4, 1.0), share=(0.0, 1.5), exact=(-3.0, 1.5), noise=(-4.6, 1.0))


class Validity:
    """A Gaussian process on labels: 0 for a success, -1 for a failure; success is a value above the middle.

    Its hyperparameters follow as failures come in, from long length scales: resource limits cut a space along its
    logarithmic features. Of many results it holds the last ``MOST_KNOWN``.
    """

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._kernel = Kernel(candidates.model_features, SMOOTH)
        self._labels: dict[int, float] = {}
        self._pool: Rows = np.zeros((0, 0), dtype=np.uint8)
        self._posterior: Posterior | None = None
        self._held: list[int] = []
        self._believed = 0
        self._fitted = 0
        self._result: Floats = np.zeros(0)
        self.failures = 0

    def learn(self, index: int, good: bool) -> None:
        self.failures += (not good) - (self._labels.get(index, 0.0) < 0)
        self._labels[index] = 0.0 if good else -1.0
        self._believed = -1

    def renew(self, codes: Rows) -> None:
        """Take another pool."""
        if codes is not self._pool:
            self._pool, self._posterior = codes, None

    def log_probability(self) -> Floats | float:
        """Return the logarithm of each pool row's probability of success; 0 while nothing failed."""
        if not self.failures:
            return 0.0
        if self._believed != len(self._labels) or self._posterior is None:
            self._result = self._evaluate()
            self._believed = len(self._labels)
        return self._result

    def _evaluate(self) -> Floats:
        from scipy.special import log_ndtr

        outgrown = self.failures >= 1.25 * self._fitted or len(self._held) > MOST_KNOWN + 60
        if self._posterior is None or outgrown:
            self._held = list(self._labels)[-MOST_KNOWN:]
            codes = self._candidates.codes_of(self._held)
            if outgrown:
                self._fitted = self.failures
                labels = np.array([self._labels[row] for row in self._held])
                self._kernel.fit(codes, labels, np.zeros(len(labels)), 20)
            self._posterior = Posterior(self._kernel, self._pool, codes, np.zeros(len(codes)))
        held = set(self._held)
        for row in list(self._labels)[-60:]:
            if row not in held:
                self._posterior.add(self._candidates.codes_of([row])[0])
                self._held.append(row)
        labels = np.array([self._labels[row] for row in self._held])
        middle = 0.5 + self._posterior.mean(labels)
        result = log_ndtr(middle / np.sqrt(np.maximum(self._posterior.variance, 0) + EDGE**2))
        return np.asarray(np.where(result < math.log(LEAST), result + 10 * HOPELESS, result))
