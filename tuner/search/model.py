"""Predict all configurations from some results, for stopping, explaining and warm-starting a search.

Uses the samplers' kernel, fitted once to the given results.
"""

from __future__ import annotations

import numpy as np

from tuner.search.arrays import Floats, Indices
from tuner.search.candidates import Candidates
from tuner.search.gp.kernel import Kernel, Prior
from tuner.search.gp.likelihood import fit
from tuner.search.gp.posterior import Posterior
from tuner.search.gp.threads import one_thread
from tuner.search.gp.transform import OutputWarp
from tuner.search.observations import Observations

COMPRESS = 0.3  # reach of the scale for slow values, relative to how far the fastest is below the median
STEPS = 30  # iterations of the fit
CHUNK = 20_000  # rows predicted at a time


class Model:
    """A Gaussian process over the candidates, given some results; values are logarithms of seconds.

    Attributes:
        known: The results it holds: all, or some of many.
    """

    def __init__(self, candidates: Candidates, observations: Observations) -> None:
        self.candidates, self.known = candidates, observations.some()
        self._warp = OutputWarp.fit(self.known.values, COMPRESS)
        self.kernel = Kernel(candidates.model_features, Prior())
        codes = candidates.codes_of(self.known.rows)
        target = self._warp.apply(self.known.values)
        noise = self.known.variances / self._warp.spread**2
        with one_thread():
            fit(self.kernel, codes, target, noise, STEPS)
            self._posterior = Posterior(self.kernel, codes, target, noise)

    def predict(self, rows: Indices) -> Floats:
        """Return the expected values of some rows."""
        parts = [self._at(rows[start : start + CHUNK])[0] for start in range(0, len(rows), CHUNK)]
        return self._warp.undo(np.concatenate([np.zeros(0), *parts]))

    def uncertain(self, rows: Indices) -> tuple[Floats, Floats]:
        """Return expectation and standard deviation of some rows; the deviation applies near the fastest."""
        mean, whitened = self._at(rows)
        variance = self._posterior.variance(whitened)
        return self._warp.undo(mean), np.sqrt(np.maximum(variance, 1e-12)) * self._warp.spread

    def draws(self, rows: Indices, count: int, widen: float = 1.0) -> Floats:
        """Return ``count`` joint draws of the values of some rows, shape (count, len(rows)).

        Args:
            widen: Factor on the standard deviations.

        The part that the features do not explain is drawn for each row independently: it is not measurement noise.
        """
        mean, whitened = self._at(rows)
        codes = self.candidates.codes_of(rows)
        covariance = self.kernel.matrix(codes, self.kernel.layout(codes)) - whitened.T @ whitened
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0))
        normal, rough = np.random.default_rng(0).normal(size=(2, count, len(rows)))
        return self._warp.undo(mean + widen * (normal @ root.T + rough * np.sqrt(self.kernel.noise)))

    def left_out(self) -> Floats:
        """Return what each known row's value is expected to be from all the others."""
        return self._warp.undo(self._posterior.left_out())

    def _at(self, rows: Indices) -> tuple[Floats, Floats]:
        """Return expected values, on the model's scale, and the whitened covariance with the known rows."""
        with one_thread():
            return self._posterior.at(self.candidates.codes_of(rows))
