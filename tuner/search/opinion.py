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
from tuner.search.line import Line
from tuner.search.posterior import Posterior
from tuner.search.scale import Scale

if TYPE_CHECKING:
    from tuner.search.guide import Guide
    from tuner.search.surrogate import SurrogateSampler

STEPS = 15  # of a fit, which starts where the last one ended
ALIKE = 0.4  # of their deviations is left to the hyperparameters of a kernel whose donor was fitted
ROUGH = 1.0  # how much of what the features do not explain a configuration may gain by


class Opinion:
    """A kernel with hyperparameters of its own, and what it believes of the rows on screen.

    Args:
        figures: Tell configurations apart by what their templates derive as well.
    """

    def __init__(self, sampler: SurrogateSampler, guide: Guide | None = None, figures: bool = True) -> None:
        self._sampler, self._guide = sampler, guide
        self.evidence = 0.0  # logarithm of how probable the results are; held up only beside a guide
        candidates = sampler.candidates
        features = candidates.model_features if figures else candidates.plain_features
        self._kernel = Kernel(features, sampler.settings.prior)
        if guide:
            self._kernel.expect(guide.kernel, ALIKE)
        self._posterior: Posterior | None = None
        self._active: list[int] = []

    @property
    def fitted(self) -> bool:
        return self._posterior is not None

    def renew(self, fit: bool) -> None:
        """Hold what is known now; ``fit`` to it, under another draw of the prior."""
        self._active = self._sampler.choose_active()
        if fit:
            self._fit()
        self.look_again()

    def _fit(self) -> None:
        sampler, kernel = self._sampler, self._kernel
        target, noise = sampler.target(self._active)
        codes = sampler.candidates.codes_of(self._active)
        covariance = kernel.matrix(codes, kernel.columns(codes)) + np.diag(noise + kernel.noise)
        target = raised(covariance, target, sampler.bounded(self._active))
        if self._guide:
            guess, _ = self._guesses(np.ones(len(target), dtype=bool))
            target = target - Line.fit(covariance, target, guess).slope * guess
        kernel.doubt(sampler.settings.doubt * sampler.random.normal(size=len(kernel.theta)))
        kernel.fit(codes, target, noise, STEPS)

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
        guess, there = self._guesses(known)
        line = Line.fit(posterior.among(known), target[known], guess[known]) if sampler.guide else Line()
        self.evidence = line.evidence + self._kernel.log_prior()
        base = line.slope * guess
        target, best = posterior.believe(target - base, known, noise, bounded, base)
        variance = np.maximum(posterior.variance, 1e-12) + ROUGH * self._kernel.noise
        if self._guide:
            variance += (line.deviation * (there - posterior.mean(guess))) ** 2
        return log_improvement(posterior.mean(target) + line.slope * there, np.sqrt(variance), best)

    def _guesses(self, known: Flags) -> tuple[Floats, Floats]:
        """Return the donor's guess of the active rows and of those on screen, on the target's scale; 0 without one."""
        sampler, guide = self._sampler, self._guide
        if guide is None:
            return np.zeros(len(known)), np.zeros(1)
        rows = np.array(self._active, dtype=np.int64)
        seen = np.array([sampler.seen[row].value for row in rows[known].tolist()])
        here, there = guide.guess(rows), guide.guess(sampler.screen.rows)
        level = float(np.median(seen - here[known]))
        scale = Scale.of(seen, sampler.settings.compress)
        here, there = scale.apply(level + here), scale.apply(level + there)
        middle = float(here[known].mean())
        return here - middle, there - middle

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
