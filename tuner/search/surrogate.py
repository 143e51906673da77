"""The default sampler: a Gaussian process over all candidates, and where it expects the largest gain.

The first trials are a walk over neighbours. From then on each proposal maximises the logarithm of the expected
improvement plus that of the probability of being valid, every other one only near the fastest configuration. Rows
without a result yet are taken at their expected value (kriging believer), so that a batch spreads. Several templates
are one model with the template as a feature: what is known of a shared parameter counts for all, and the expected
gain divides the trials among them.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tuner.search.anneal import Walk
from tuner.search.bounds import Flags, raised
from tuner.search.candidates import Candidates, Floats
from tuner.search.gp import Kernel, Posterior, Prior
from tuner.search.samplers import Ledger
from tuner.search.screen import Screen
from tuner.search.validity import HOPELESS, Validity

ROUGH = 1.0  # how much of what the features do not explain a configuration may gain by


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What shapes the search; the defaults serve all kernels.

    Attributes:
        opening: Trials before the model leads.
        known: Results that the model holds at most.
        radius: Every other proposal differs from the fastest configuration in at most this many parameters.
        compress: Slower than the median counts on a logarithmic scale of this many times the spread below it.
    """

    opening: int = 4
    known: int = 240
    radius: int = 2
    compress: float = 0.3
    prior: Prior = field(default_factory=Prior)


@dataclass(frozen=True, slots=True)
class Seen:
    """A successful trial: the logarithm of its seconds, the variance of that, and whether it took at least so long."""

    value: float
    variance: float
    bound: bool = False


class SurrogateSampler(Ledger):
    """Searches with as few trials as it can; milliseconds a proposal."""

    def __init__(self, candidates: Candidates, seed: int, settings: Settings | None = None) -> None:
        super().__init__(candidates, seed)
        self.settings = settings or Settings()
        self.seen: dict[int, Seen] = {}
        self._walk = Walk(self)
        self._screen = Screen(self)
        self._validity = Validity(candidates)
        self._kernel = Kernel(candidates.model_features, self.settings.prior)
        self._posterior: Posterior | None = None
        self._active: list[int] = []
        self._fitted = 0

    def learn(self, index: int, seconds: float | None, noise: float, pruned: bool) -> None:
        good = seconds is not None and math.isfinite(seconds) and seconds > 0
        self._walk.learn(index, seconds if good else None)
        self._validity.learn(index, good)
        if seconds is not None and good:
            self.seen[index] = Seen(math.log(seconds), noise**2, pruned)
        else:
            self.seen.pop(index, None)

    def propose(self, count: int) -> list[int]:
        with one_thread():
            return super().propose(count)

    def choose(self) -> int:
        tried = len(self.seen) + self._validity.failures + len(self.pending)
        if tried < self.settings.opening or len(self.seen) < 3:
            return self._walk.choose()
        if self._refit_due():
            self._refit()
        posterior = self._believe()
        scores = self._scores(posterior)
        return int(self._screen.rows[np.argmax(scores)])

    def _refit_due(self) -> bool:
        count = len(self.seen)
        step = 1 if count < 30 else 2 if count < 60 else 5 if count < 120 else 20
        return self._posterior is None or count - self._fitted >= step or self._screen.exhausted

    def _refit(self) -> None:
        self._fitted = len(self.seen)
        self._active = self._choose_active()
        target, noise = self._target(self._active)
        codes = self.candidates.codes_of(self._active)
        covariance = self._kernel.matrix(codes, self._kernel.columns(codes)) + np.diag(noise + self._kernel.noise)
        target = raised(covariance, target, self._bounded(self._active))
        self._kernel.fit(codes, target, noise, 30)
        self._screen.renew()
        self._validity.renew(self._screen.codes)
        self._posterior = Posterior(self._kernel, self._screen.codes, codes, noise)

    def _choose_active(self) -> list[int]:
        """Return the rows the model holds: all, or else the fastest half and a random half of the others."""
        rows, most = list(self.seen), self.settings.known
        if len(rows) <= most:
            return rows
        rows.sort(key=lambda row: self.seen[row].value)
        half = most // 2
        others = self.random.choice(len(rows) - half, size=most - half, replace=False) + half
        return rows[:half] + [rows[position] for position in sorted(others)]

    def _believe(self) -> Posterior:
        """Add to the posterior what came since the last refit: results and pending rows."""
        assert self._posterior is not None
        held = set(self._active)
        for row in [*self.seen, *self.pending] if len(self.seen) <= self.settings.known else self.pending:
            if row not in held:
                self._posterior.add(self.candidates.codes_of([row])[0])
                self._active.append(row)
        return self._posterior

    def _target(self, rows: list[int]) -> tuple[Floats, Floats]:
        """Return standardised values and noise variances of some seen rows; slow ones are drawn together."""
        raw = np.array([self.seen[row].value for row in rows])
        low, middle = raw.min(), float(np.median(raw))
        reach = max(middle - low, 1e-9) * self.settings.compress
        values = np.where(raw > middle, middle + reach * np.log1p(np.maximum(raw - middle, 0) / reach), raw)
        spread = float(values.std()) or 1.0
        noise = np.array([self.seen[row].variance for row in rows]) / spread**2
        return (values - values.mean()) / spread, noise

    def _bounded(self, rows: list[int]) -> Flags:
        return np.array([self.seen[row].bound for row in rows], dtype=bool)

    def _scores(self, posterior: Posterior) -> Floats:
        rows = [row for row in self._active if row in self.seen]
        known: Flags = np.array([row in self.seen for row in self._active])
        bounded: Flags = np.zeros(len(known), dtype=bool)
        bounded[known] = self._bounded(rows)
        target, noise = np.zeros((2, len(self._active)))
        target[known], noise[known] = self._target(rows)
        target, best = posterior.believe(target, known, noise, bounded)
        mean = posterior.mean(target)
        scores = log_improvement(
            mean, np.sqrt(np.maximum(posterior.variance, 1e-12) + ROUGH * self._kernel.noise), best
        )
        scores += self._validity.log_probability()
        scores[self.taken[self._screen.rows]] = -np.inf
        return self._near(scores) if self.left % 2 else scores

    def _near(self, scores: Floats) -> Floats:
        """Keep the scores around the fastest configuration, where there is one left to try."""
        fastest = min(self.seen, key=lambda row: (self.seen[row].bound, self.seen[row].value))
        apart = self.candidates.choices[self._screen.rows] != self.candidates.choices[fastest]
        near = np.where(np.count_nonzero(apart, axis=1) <= self.settings.radius, scores, -np.inf)
        return near if near.max() > HOPELESS else scores


@cache
def _threads() -> Any:
    """Find the loaded linear-algebra libraries, after SciPy has brought its own."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped, unused-ignore]

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra to one thread: the matrices are small, and other threads spin where kernels compile."""
    limited: AbstractContextManager[Any] = _threads().limit(limits=1)
    return limited


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the logarithm of the expected improvement below ``best``, without underflow.

    Source:
        Ament et al., "Unexpected improvements to expected improvement for Bayesian optimization", NeurIPS 2023.
    """
    from scipy.special import erfcx, ndtr

    z = (best - mean) / deviation
    near = np.maximum(z, -1.0)
    density = np.exp(-0.5 * near**2) / math.sqrt(2 * math.pi)
    far = np.minimum(z, -1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 1 + far * math.sqrt(math.pi / 2) * erfcx(-far / math.sqrt(2))
        ratio = np.where(far < -1e3, far**-2.0, ratio)
    tail = -0.5 * far**2 - 0.5 * math.log(2 * math.pi) + np.log(np.maximum(ratio, 1e-300))
    return np.asarray(np.where(z > -1, np.log(density + near * ndtr(near)), tail) + np.log(deviation))
