"""One of several models that the surrogate asks: each is fitted with other expectations, so that they may disagree.

A few results do not settle what matters in a kernel. Instead of the one most probable answer, each opinion has its
prior moved at random before it is fitted anew (randomise, then optimise), which draws about as often from every answer
as it is probable.

Source:
    Bardsley et al., "Randomize-then-optimize", SIAM J. Sci. Comput. 36(4), 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.search.bounds import Flags, raised
from tuner.search.candidates import Floats
from tuner.search.gp import Kernel
from tuner.search.improvement import log_improvement
from tuner.search.posterior import Posterior

if TYPE_CHECKING:
    from tuner.search.surrogate import SurrogateSampler

STEPS = 15  # of a fit, which starts where the last one ended
ROUGH = 1.0  # how much of what the features do not explain a configuration may gain by


class Opinion:
    """A kernel with hyperparameters of its own, and what it believes of the rows on screen."""

    def __init__(self, sampler: SurrogateSampler) -> None:
        self._sampler = sampler
        self._kernel = Kernel(sampler.candidates.model_features, sampler.settings.prior)
        self._posterior: Posterior | None = None
        self._active: list[int] = []

    @property
    def fitted(self) -> bool:
        return self._posterior is not None

    def refit(self) -> None:
        """Fit to what is known, under another draw of the prior."""
        sampler, kernel = self._sampler, self._kernel
        self._active = sampler.choose_active()
        target, noise = sampler.target(self._active)
        codes = sampler.candidates.codes_of(self._active)
        covariance = kernel.matrix(codes, kernel.columns(codes)) + np.diag(noise + kernel.noise)
        target = raised(covariance, target, sampler.bounded(self._active))
        kernel.doubt(sampler.settings.doubt * sampler.random.normal(size=len(kernel.theta)))
        kernel.fit(codes, target, noise, STEPS)
        self.look_again()

    def look_again(self) -> None:
        """Believe what is known about another pool of rows."""
        sampler = self._sampler
        if self._active:
            self._active = [row for row in self._active if row in sampler.seen]
            _, noise = sampler.target(self._active)
            codes = sampler.candidates.codes_of(self._active)
            self._posterior = Posterior(self._kernel, sampler.screen.codes, codes, noise)

    def score(self) -> Floats:
        """Return the logarithm of the expected improvement of each row on screen."""
        posterior, sampler = self._believe(), self._sampler
        rows = [row for row in self._active if row in sampler.seen]
        known: Flags = np.array([row in sampler.seen for row in self._active])
        bounded: Flags = np.zeros(len(known), dtype=bool)
        bounded[known] = sampler.bounded(rows)
        target, noise = np.zeros((2, len(self._active)))
        target[known], noise[known] = sampler.target(rows)
        target, best = posterior.believe(target, known, noise, bounded)
        deviation = np.sqrt(np.maximum(posterior.variance, 1e-12) + ROUGH * self._kernel.noise)
        return log_improvement(posterior.mean(target), deviation, best)

    def _believe(self) -> Posterior:
        """Add to the posterior what came since the last fit: results and pending rows."""
        assert self._posterior is not None
        sampler, held = self._sampler, set(self._active)
        whole = len(sampler.seen) <= sampler.settings.known
        for row in [*sampler.seen, *sampler.pending] if whole else sampler.pending:
            if row not in held:
                self._posterior.add(sampler.candidates.codes_of([row])[0])
                self._active.append(row)
        return self._posterior
