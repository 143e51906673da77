"""What a set of results says of all configurations: for whoever stops, explains or warm-starts a search.

The samplers' own kernel, fitted once to results that are given, without their state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.search.candidates import Candidates, Floats, Indices
from tuner.search.evidence import JITTER
from tuner.search.gp import Kernel, Prior
from tuner.search.scale import Scale
from tuner.search.surrogate import one_thread

MOST = 200
COMPRESS = 0.3  # slower than the median counts on a logarithmic scale of this many times the spread below it
STEPS = 30
CHUNK = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Results of successful trials.

    Attributes:
        rows: Their numbers among the candidates, each once.
        values: Logarithms of their seconds.
        variances: Of those, by measurement.
    """

    rows: Indices
    values: Floats
    variances: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, most: int = MOST) -> Known:
        """Return all, or else the fastest half of ``most`` and a random half of the others."""
        if len(self) <= most:
            return self
        order = np.argsort(self.values, kind="stable")
        others = np.random.default_rng(0).permutation(order[most // 2 :])[: most - most // 2]
        kept = np.concatenate([order[: most // 2], np.sort(others)])
        return Known(rows=self.rows[kept], values=self.values[kept], variances=self.variances[kept])


class Model:
    """A Gaussian process over the candidates, given some results; values are logarithms of seconds."""

    def __init__(self, candidates: Candidates, known: Known) -> None:
        from scipy.linalg import cho_solve, cholesky

        self.candidates, self.known = candidates, known.some()
        self._scale = Scale.of(self.known.values, COMPRESS)
        self.kernel = Kernel(candidates.model_features, Prior())
        codes = candidates.codes_of(self.known.rows)
        self._target = self._scale.apply(self.known.values)
        noise = self.known.variances / self._scale.spread**2
        with one_thread():
            self.kernel.fit(codes, self._target, noise, STEPS)
            self._columns = self.kernel.columns(codes)
            inner = self.kernel.matrix(codes, self._columns) + np.diag(noise + self.kernel.noise + JITTER)
            self._factor = cholesky(inner, lower=True)
            self._solved = cho_solve((self._factor, True), self._target)

    def predict(self, rows: Indices) -> Floats:
        """Return the expected values of some rows."""
        parts = [self._posterior(rows[start : start + CHUNK])[0] for start in range(0, len(rows), CHUNK)]
        return self._scale.undo(np.concatenate([np.zeros(0), *parts]))

    def uncertain(self, rows: Indices) -> tuple[Floats, Floats]:
        """Return expectation and standard deviation of some rows; the deviation is as it is near the fastest."""
        mean, whitened = self._posterior(rows)
        variance = self.kernel.scale - np.einsum("ij,ij->j", whitened, whitened)
        return self._scale.undo(mean), np.sqrt(np.maximum(variance, 1e-12)) * self._scale.spread

    def draws(self, rows: Indices, count: int, widen: float = 1.0) -> Floats:
        """Return ``count`` joint draws of the values of some rows, shape (count, len(rows)).

        Args:
            widen: Times the deviations that the model believes in.

        What the features do not explain is drawn for each row on its own: it is there without noise as well.
        """
        mean, whitened = self._posterior(rows)
        codes = self.candidates.codes_of(rows)
        covariance = self.kernel.matrix(codes, self.kernel.columns(codes)) - whitened.T @ whitened
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0))
        normal, rough = np.random.default_rng(0).normal(size=(2, count, len(rows)))
        return self._scale.undo(mean + widen * (normal @ root.T + rough * np.sqrt(self.kernel.noise)))

    def left_out(self) -> Floats:
        """Return what each known row's value is expected to be from all the others."""
        from scipy.linalg import cho_solve

        inverse = cho_solve((self._factor, True), np.eye(len(self._target)))
        return self._scale.undo(self._target - self._solved / np.diag(inverse))

    def _posterior(self, rows: Indices) -> tuple[Floats, Floats]:
        from scipy.linalg import solve_triangular

        with one_thread():
            cross = self.kernel.matrix(self.candidates.codes_of(rows), self._columns).T
            whitened = solve_triangular(self._factor, cross, lower=True, check_finite=False)
            return self._solved @ cross, whitened
