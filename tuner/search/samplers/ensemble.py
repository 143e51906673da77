"""The models whose expected improvement the surrogate averages: each fitted under another prior, so that they differ.

A few results do not settle what matters in a kernel. Instead of using only the most probable answer, each member has
its prior moved at random before it is fitted again (randomise, then optimise), which draws answers about in proportion
to their probability.

Source:
    Bardsley et al., "Randomize-then-optimize", SIAM J. Sci. Comput. 36(4), 2014.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tuner.search.arrays import Flags, Floats, Indices
from tuner.search.candidates import Candidates
from tuner.search.gp.acquisition import log_ei
from tuner.search.gp.censored import impute_censored
from tuner.search.gp.conditioning import Covariance
from tuner.search.gp.kernel import Kernel
from tuner.search.gp.likelihood import fit
from tuner.search.gp.posterior import PoolPosterior
from tuner.search.gp.transform import OutputWarp
from tuner.search.observations import Observations
from tuner.search.samplers.pool import Pool
from tuner.search.samplers.settings import Settings
from tuner.search.samplers.transfer import ScaledPriorMean, TransferPrior

STEPS = 15  # iterations of a fit, which starts at the result of the last one
TIGHTNESS = 0.4  # prior standard deviations when a source was fitted, relative to the default
ROUGHNESS = 1.0  # share of the variance that no feature explains which counts as possible improvement


class EnsembleMember:
    """A Gaussian process with its own hyperparameters, and the improvement it expects for the rows of a pool.

    Args:
        derived: Also use the features that templates derive.
        source: A source study whose scaled prediction is the prior mean.
        weighed: Keep ``log_evidence``, to be compared with other members'.

    Attributes:
        log_evidence: How probable the member makes the results, as a logarithm; 0 unless ``weighed``.
    """

    def __init__(
        self,
        candidates: Candidates,
        settings: Settings,
        *,
        derived: bool = True,
        source: TransferPrior | None = None,
        weighed: bool = False,
    ) -> None:
        self._candidates, self._settings = candidates, settings
        self._source, self._weighed = source, weighed
        self._kernel = Kernel(candidates.model_features if derived else candidates.plain_features, settings.prior)
        if source:
            self._kernel.centre_on(source.kernel, TIGHTNESS)
        self._rows: list[int] = []  # rows of the posterior, in its order
        self._pool: Pool | None = None
        self._posterior: PoolPosterior | None = None
        self.log_evidence = 0.0

    @property
    def fitted(self) -> bool:
        return self._posterior is not None

    def renew(self, observations: Observations, pool: Pool, random: np.random.Generator, refit: bool) -> None:
        """Take in what is known now, or a sample of it; ``refit`` to it, under another draw of the prior."""
        held = observations.sample(self._settings.known, random)
        self._rows = held.rows.tolist()
        if refit:
            self._fit(held, pool, random)
        self.use(pool, observations)

    def _fit(self, held: Observations, pool: Pool, random: np.random.Generator) -> None:
        kernel, warp = self._kernel, OutputWarp.fit(held.values, self._settings.compress)
        target, noise = warp.apply(held.values), held.variances / warp.spread**2
        codes = self._candidates.codes_of(held.rows)
        covariance = Covariance(kernel.matrix(codes, kernel.layout(codes)) + np.diag(noise + kernel.noise))
        target = impute_censored(covariance, target, held.censored)
        if self._source:
            predicted, _ = _centred(self._source, warp, held, held.rows, pool.rows)
            target = target - ScaledPriorMean.fit(covariance, target, predicted).slope * predicted
        kernel.shift_prior(self._settings.doubt * random.normal(size=len(kernel.theta)))
        fit(kernel, codes, target, noise, STEPS)

    def use(self, pool: Pool, observations: Observations) -> None:
        """Score another pool, using the held results that are still valid."""
        if not self._rows:
            return
        held = observations.of_rows(np.array(self._rows)[observations.holds(self._rows)].tolist())
        self._rows, self._pool = held.rows.tolist(), pool
        noise = held.variances / OutputWarp.fit(held.values, self._settings.compress).spread ** 2
        self._posterior = PoolPosterior(self._kernel, pool.codes, self._candidates.codes_of(held.rows), noise)

    def score(self, observations: Observations, pending: Iterable[int]) -> Floats:
        """Return the logarithm of the expected improvement of each row of the pool."""
        assert self._pool is not None
        posterior = self._updated(observations, pending)
        known = observations.holds(self._rows)
        rows = np.array(self._rows, dtype=np.int64)
        held = observations.of_rows(rows[known].tolist())
        warp = OutputWarp.fit(held.values, self._settings.compress)
        target, noise = np.zeros((2, len(rows)))
        target[known], noise[known] = warp.apply(held.values), held.variances / warp.spread**2
        censored: Flags = np.zeros(len(rows), dtype=bool)
        censored[known] = held.censored
        predicted, on_pool = np.zeros(len(rows)), np.zeros(1)
        if self._source:
            predicted, on_pool = _centred(self._source, warp, held, rows, self._pool.rows)
        scaled = ScaledPriorMean()
        if self._weighed:
            scaled = ScaledPriorMean.fit(posterior.covariance_of(known), target[known], predicted[known])
            self.log_evidence = scaled.log_evidence + self._kernel.log_prior()
        base = scaled.slope * predicted
        target, best = posterior.complete(target - base, known, noise, censored, base)
        variance = np.maximum(posterior.variance, 1e-12) + ROUGHNESS * self._kernel.noise
        if self._source:
            variance += (scaled.std * (on_pool - posterior.mean(predicted))) ** 2
        return log_ei(posterior.mean(target) + scaled.slope * on_pool, np.sqrt(variance), best)

    def _updated(self, observations: Observations, pending: Iterable[int]) -> PoolPosterior:
        """Add results and pending rows since the last fit to the posterior."""
        assert self._posterior is not None
        held = set(self._rows)
        whole = len(observations) <= self._settings.known
        for row in [*observations.rows.tolist(), *pending] if whole else pending:
            if row not in held:
                self._posterior.add(self._candidates.codes_of([row])[0])
                self._rows.append(row)
        return self._posterior


def _centred(
    source: TransferPrior, warp: OutputWarp, held: Observations, rows: Indices, others: Indices
) -> tuple[Floats, Floats]:
    """Return the source's predictions for ``rows`` and for ``others`` on the warped scale, around zero on ``held``."""
    here, there, expected = (source.predict(some) for some in (rows, others, held.rows))
    level = float(np.median(held.values - expected))
    middle = float(warp.apply(level + expected).mean())
    return warp.apply(level + here) - middle, warp.apply(level + there) - middle


class Ensemble:
    """Several members, one of which is renewed at a time."""

    def __init__(self, members: Sequence[EnsembleMember]) -> None:
        self.members = list(members)

    def renew(
        self, observations: Observations, pool: Pool, random: np.random.Generator, *, refit: bool, moved: bool
    ) -> None:
        """Renew the member whose turn it is; with ``moved``, give the others the new pool."""
        member = self.members.pop(0)
        member.renew(observations, pool, random, refit)
        if moved:
            for other in self.members:
                other.use(pool, observations)
        self.members.append(member)

    def score(self, observations: Observations, pending: Iterable[int]) -> Floats:
        """Return the logarithm of the members' summed expected improvement of each row of the pool."""
        waiting = list(pending)
        scores = [member.score(observations, waiting) for member in self.members if member.fitted]
        return np.asarray(np.logaddexp.reduce(scores))

    @property
    def log_evidence(self) -> float:
        """The mean over the members."""
        return float(np.mean([member.log_evidence for member in self.members if member.fitted]))
