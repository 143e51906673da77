"""The default sampler: proposes where a Gaussian process over all candidates expects the largest gain.

The first trials are a walk over neighbours. From then on each proposal maximises the logarithm of the expected
improvement plus that of the probability of being valid, every other one only near the fastest configuration. The
improvement is the mean over several models, since a few results do not settle the hyperparameters; every other model
also knows the features that templates derive, which explain most spaces but not all. Rows without a result yet are
assumed to have their expected value (kriging believer), so that a batch spreads. Several templates are one model with
the template as a feature: what is learnt about a shared parameter counts for all, and the expected gain divides the
trials among them.
"""

from __future__ import annotations

import math

import numpy as np

from tuner.search.arrays import Floats
from tuner.search.candidates import Candidates
from tuner.search.gp.threads import one_thread
from tuner.search.observations import ObservationLog
from tuner.search.samplers.anneal import Walk
from tuner.search.samplers.base import PoolSampler
from tuner.search.samplers.ensemble import Ensemble, EnsembleMember
from tuner.search.samplers.feasibility import HOPELESS, FeasibilityModel
from tuner.search.samplers.pool import CandidatePool, Pool
from tuner.search.samplers.settings import Settings
from tuner.search.samplers.transfer import MIN_RESULTS, OPENING, TransferPrior

REFIT_SHARE = 10  # hyperparameters of many results are refitted once there are a tenth more
SHORTLIST = 8  # rows considered for each one taken from one scoring


class SurrogateSampler(PoolSampler):
    """Needs few trials; takes milliseconds a proposal.

    Args:
        source: A source study's predictions to start from.
    """

    def __init__(
        self, candidates: Candidates, seed: int, settings: Settings | None = None, source: TransferPrior | None = None
    ) -> None:
        super().__init__(candidates, seed)
        self.settings, self.source = settings or Settings(), source
        self.log = ObservationLog()
        self._walk = Walk(candidates, self.random)
        self._pools = CandidatePool(candidates, self.settings.pool, self.random, source)
        self._feasibility = FeasibilityModel(candidates)
        turns, weighed = range(self.settings.members), source is not None
        plain = [EnsembleMember(candidates, self.settings, derived=turn % 2 == 0, weighed=weighed) for turn in turns]
        guided = [EnsembleMember(candidates, self.settings, source=source, weighed=True) for _ in turns if source]
        self.ensemble, self._guided = Ensemble(plain), Ensemble(guided)
        self._renewed = self._fitted = 0

    @property
    def pool(self) -> Pool:
        """The candidates that are scored now."""
        return self._pools.pool

    def learn(self, index: int, seconds: float | None, noise: float, pruned: bool) -> None:
        good = seconds is not None and math.isfinite(seconds) and seconds > 0
        self._walk.learn(index, seconds if good else None)
        self._feasibility.learn(index, good)
        if seconds is not None and good:
            self.log.record(index, math.log(seconds), noise**2, pruned)
        else:
            self.log.forget(index)

    def propose(self, count: int) -> list[int]:
        rows: list[int] = []
        at_once = math.ceil(count / (self.settings.scorings or count or 1)) | 1  # odd: near and far ones alternate
        with one_thread():
            while len(rows) < count and self.left:
                rows += self._give(self._choose(min(at_once, count - len(rows))))
        return rows

    def _choose(self, most: int) -> list[int]:
        """Return the best row, and up to ``most`` from the same scoring of the pool."""
        tried = len(self.log) + self._feasibility.failures + len(self.pending)
        if self.source and (row := self._opening(self.source, tried)) is not None:
            return [row]
        if tried < self.settings.opening or len(self.log) < 3:
            row = self._walk.choose(self.taken)
            return [self.draw() if row is None else row]
        if self._is_renewal_due():
            self._renew()
        scores = self._scores()
        return self._spread(scores, most) if most > 1 else [int(self.pool.rows[np.argmax(scores)])]

    def _opening(self, source: TransferPrior, tried: int) -> int | None:
        """Return one of the first rows to try with a source study; None once the model may lead."""
        waiting = bool(self.pending) and len(self.log) < MIN_RESULTS
        if tried >= OPENING and not waiting:
            return None
        return self.draw() if tried % 2 else source.next_fastest(self.taken)

    def _spread(self, scores: Floats, most: int) -> list[int]:
        """Return the rows with the best scores of which no two differ in one parameter only, or fewer."""
        chosen: list[int] = []
        rows, best = self.pool.rows, np.argsort(-scores, kind="stable")[: SHORTLIST * most]
        for row in rows[best[scores[best] > HOPELESS]].tolist() or [int(rows[best[0]])]:
            apart = self.candidates.choices[chosen] != self.candidates.choices[row]
            if len(chosen) < most and (np.count_nonzero(apart, axis=1) > 1).all():
                chosen.append(row)
        return chosen

    def _is_renewal_due(self) -> bool:
        count = len(self.log)
        step = 1 if count < 30 else 2 if count < 60 else 5 if count < 120 else 20
        return not self._renewed or count - self._renewed >= step or self._pools.is_exhausted(self.taken)

    def _renew(self) -> None:
        """Renew the pool if due, and one member of each ensemble."""
        observations = self.log.observations
        count = self._renewed = len(observations)
        refit = count - self._fitted >= count // REFIT_SHARE
        self._fitted = count if refit else self._fitted
        before, pool = self._pools.pool, self._pools.renew(observations, self.taken)
        self._feasibility.use(pool)
        for ensemble in (self.ensemble, self._guided) if self.source else (self.ensemble,):
            ensemble.renew(observations, pool, self.random, refit=refit, moved=pool is not before)

    def _scores(self) -> Floats:
        """Return the mean improvement over all members, times the probability of being valid, as a logarithm."""
        observations = self.log.observations
        scores = self.ensemble.score(observations, self.pending)
        if self.source:
            guided = self._guided.score(observations, self.pending)
            scores = self.source.merge(scores, self.ensemble.log_evidence, guided, self._guided.log_evidence)
        scores += self._feasibility.log_probability()
        scores[self.taken[self.pool.rows]] = -np.inf
        return self._near(scores, observations.fastest) if self.left % 2 else scores

    def _near(self, scores: Floats, fastest: int) -> Floats:
        """Keep only the scores near the fastest configuration, if any are left to try there."""
        apart = self.candidates.choices[self.pool.rows] != self.candidates.choices[fastest]
        near = np.where(np.count_nonzero(apart, axis=1) <= self.settings.radius, scores, -np.inf)
        return near if near.max() > HOPELESS else scores
