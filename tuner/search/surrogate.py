"""The default sampler: a Gaussian process over all candidates, and where it expects the largest gain.

The first trials are a walk over neighbours. From then on each proposal maximises the logarithm of the expected
improvement plus that of the probability of being valid, every other one only near the fastest configuration. The
improvement is the mean over several opinions, since a few results do not settle the hyperparameters; every other one
also knows the figures that templates derive, which explain most spaces but not all. Rows
without a result yet are taken at their expected value (kriging believer), so that a batch spreads. Several templates
are one model with the template as a feature: what is known of a shared parameter counts for all, and the expected
gain divides the trials among them.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.search.anneal import Walk
from tuner.search.bounds import Flags
from tuner.search.candidates import Candidates, Floats
from tuner.search.gp import Prior
from tuner.search.opinion import Opinion
from tuner.search.samplers import PoolSampler
from tuner.search.scale import Scale
from tuner.search.screen import Screen
from tuner.search.validity import HOPELESS, Validity

if TYPE_CHECKING:
    from tuner.search.guide import Guide


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What shapes the search; the defaults serve all kernels.

    Attributes:
        opening: Trials before the model leads.
        known: Results that the model holds at most.
        radius: Every other proposal differs from the fastest configuration in at most this many parameters.
        compress: Slower than the median counts on a logarithmic scale of this many times the spread below it.
        opinions: Models whose expected improvement is averaged; one of them is fitted anew at a time.
        pool: Of a large space, how many promising rows, and how many random ones, are on screen.
        doubt: By how many of its deviations the prior is moved before a fit.
        looks: At the model for all rows of one call, at most; None: one look a row.
    """

    opening: int = 4
    known: int = 240
    radius: int = 2
    compress: float = 0.3
    opinions: int = 4
    pool: int = 3_000
    doubt: float = 0.7
    looks: int | None = None
    prior: Prior = field(default_factory=Prior)


RARELY = 10  # of many results, hyperparameters are fitted again once there are a tenth more
APART = 8  # rows looked at for each that is taken at once
HURRIED = Settings(opinions=1, pool=1_300, looks=4, known=160)  # where trials take milliseconds and wait for proposals


@dataclass(frozen=True, slots=True)
class Seen:
    """A successful trial: the logarithm of its seconds, the variance of that, and whether it took at least so long."""

    value: float
    variance: float
    bound: bool = False


class SurrogateSampler(PoolSampler):
    """Searches with as few trials as it can; milliseconds a proposal."""

    def __init__(
        self, candidates: Candidates, seed: int, settings: Settings | None = None, guide: Guide | None = None
    ) -> None:
        super().__init__(candidates, seed)
        self.settings, self.guide = settings or Settings(), guide
        self.seen: dict[int, Seen] = {}
        self._walk = Walk(self)
        self.screen = Screen(self)
        self._validity = Validity(candidates)
        self.opinions = [Opinion(self, figures=turn % 2 == 0) for turn in range(self.settings.opinions)]
        self.guided = [Opinion(self, guide) for _ in range(self.settings.opinions if guide else 0)]
        self._looked = self._fitted = 0

    def learn(self, index: int, seconds: float | None, noise: float, pruned: bool) -> None:
        good = seconds is not None and math.isfinite(seconds) and seconds > 0
        self._walk.learn(index, seconds if good else None)
        self._validity.learn(index, good)
        if seconds is not None and good:
            self.seen[index] = Seen(math.log(seconds), noise**2, pruned)
        else:
            self.seen.pop(index, None)

    def propose(self, count: int) -> list[int]:
        rows: list[int] = []
        at_once = math.ceil(count / (self.settings.looks or count or 1)) | 1  # odd, so that near and far ones alternate
        with one_thread():
            while len(rows) < count and self.left:
                rows += self._give(self._choose(min(at_once, count - len(rows))))
        return rows

    def _choose(self, most: int) -> list[int]:
        """Return the best row, and up to ``most`` from the same look at the model."""
        tried = len(self.seen) + self._validity.failures + len(self.pending)
        if self.guide and (row := self.guide.opening(self, tried)) is not None:
            return [row]
        if tried < self.settings.opening or len(self.seen) < 3:
            return [self._walk.choose()]
        if self._renewal_due():
            self._renew()
        scores = self._scores()
        return self._spread(scores, most) if most > 1 else [int(self.screen.rows[np.argmax(scores)])]

    def _spread(self, scores: Floats, most: int) -> list[int]:
        """Return the rows with the best scores of which no two differ in one parameter only, or fewer."""
        chosen: list[int] = []
        best = np.argsort(-scores, kind="stable")[: APART * most]
        for row in self.screen.rows[best[scores[best] > HOPELESS]].tolist() or [int(self.screen.rows[best[0]])]:
            apart = self.candidates.choices[chosen] != self.candidates.choices[row]
            if len(chosen) < most and (np.count_nonzero(apart, axis=1) > 1).all():
                chosen.append(row)
        return chosen

    def _renewal_due(self) -> bool:
        count = len(self.seen)
        step = 1 if count < 30 else 2 if count < 60 else 5 if count < 120 else 20
        return not self._looked or count - self._looked >= step or self.screen.exhausted

    def _renew(self) -> None:
        """Renew the opinion whose turn it is; all of them when the rows on screen changed."""
        count = self._looked = len(self.seen)
        fit = count - self._fitted >= count // RARELY
        self._fitted = count if fit else self._fitted
        before = self.screen.codes
        self.screen.renew()
        self._validity.renew(self.screen.codes)
        for opinions in (self.opinions, self.guided) if self.guide else (self.opinions,):
            opinion = opinions.pop(0)
            opinion.renew(fit)
            if self.screen.codes is not before:
                for other in opinions:
                    other.look_again()
            opinions.append(opinion)

    def choose_active(self) -> list[int]:
        """Return the rows a model holds: all, or else the fastest half and a random half of the others."""
        rows, most = list(self.seen), self.settings.known
        if len(rows) <= most:
            return rows
        rows.sort(key=lambda row: self.seen[row].value)
        half = most // 2
        others = self.random.choice(len(rows) - half, size=most - half, replace=False) + half
        return rows[:half] + [rows[position] for position in sorted(others)]

    def target(self, rows: list[int]) -> tuple[Floats, Floats]:
        """Return standardised values and noise variances of some seen rows; slow ones are drawn together."""
        raw = np.array([self.seen[row].value for row in rows])
        scale = Scale.of(raw, self.settings.compress)
        return scale.apply(raw), np.array([self.seen[row].variance for row in rows]) / scale.spread**2

    def bounded(self, rows: list[int]) -> Flags:
        """Tell which of some seen rows have only a lower bound."""
        return np.array([self.seen[row].bound for row in rows], dtype=bool)

    def _scores(self) -> Floats:
        """Return the mean improvement over all opinions, times the probability of being valid, as a logarithm."""
        scores = _together(self.opinions)
        if self.guide:
            scores = self.guide.merge(scores, _together(self.guided), self.opinions, self.guided)
        scores += self._validity.log_probability()
        scores[self.taken[self.screen.rows]] = -np.inf
        return self._near(scores) if self.left % 2 else scores

    def _near(self, scores: Floats) -> Floats:
        """Keep the scores around the fastest configuration, where there is one left to try."""
        fastest = min(self.seen, key=lambda row: (self.seen[row].bound, self.seen[row].value))
        apart = self.candidates.choices[self.screen.rows] != self.candidates.choices[fastest]
        near = np.where(np.count_nonzero(apart, axis=1) <= self.settings.radius, scores, -np.inf)
        return near if near.max() > HOPELESS else scores


def _together(opinions: list[Opinion]) -> Floats:
    return np.asarray(np.logaddexp.reduce([opinion.score() for opinion in opinions if opinion.fitted]))


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
