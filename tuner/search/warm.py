"""A sampler that begins where another search ended, and trusts it only as long as it is right.

The donor's results give a first guess of every configuration's time. The first proposal is the donor's fastest; from
then on a share of the proposals maximises the expected improvement under that guess, corrected by what has been
measured here, and the rest is the inner sampler's. The share is the trust: the rank correlation of guess and
measurement over all trials so far; proposals without a new best halve it again and again. So a misleading donor is soon
left alone, and its trials were not lost on the inner sampler.
"""

from __future__ import annotations

import math

import numpy as np

from tuner.search.candidates import ABSENT, Candidates, Floats, Indices, Rows
from tuner.search.gp import JITTER
from tuner.search.model import Known, Model
from tuner.search.samplers import Ledger, Sampler
from tuner.search.surrogate import one_thread

FEWEST = 10  # results a donor needs
TRUST, WEIGHT = 0.8, 4  # in a donor before anything was measured, and how many trials it takes to outweigh that
PATIENCE = 5  # proposals of the donor's without a new best that halve its share
LEAST = 0.4  # trust below which a donor gets no proposal
POOL = 20_000
DRAWN, NEAR = 4_000, 10


class WarmSampler:
    """Serves proposals of ``inner``, and as many of the donor's as have proved right; see the module."""

    def __init__(self, inner: Ledger, donor: Known, seed: int) -> None:
        self.inner, self._donor = inner, donor
        self._model = Model(inner.candidates, donor)
        self._pool = self._choose_pool(np.random.default_rng(seed))
        self._guess = dict(zip(self._pool.tolist(), self._model.predict(self._pool).tolist(), strict=True))
        self._seen: dict[int, float] = {}
        self._credit = 1.0  # the first proposal is the donor's
        self._ours: set[int] = set()
        self._fruitless = 0

    @property
    def left(self) -> int:
        return self.inner.left

    def propose(self, count: int) -> list[int]:
        ours = []
        for _ in range(min(count, self.inner.left)):
            trust = self.trust()
            if self._credit >= 1 and trust >= LEAST and (row := self._choose()) is not None:
                self._credit -= 1
                self.inner.take(row)
                self.inner.pending[row] = None
                ours.append(row)
            self._credit = min(self._credit + trust * 0.5 ** (self._fruitless / PATIENCE), 1.0 + TRUST)
        self._ours.update(ours)
        return ours + self.inner.propose(count - len(ours))

    def observe(self, index: int, seconds: float | None, *, noise: float = 0.0, pruned: bool = False) -> None:
        good = seconds is not None and math.isfinite(seconds) and seconds > 0
        if index in self._ours:
            self._ours.discard(index)
            better = good and math.log(seconds or 1) < min(self._seen.values(), default=math.inf)
            self._fruitless = 0 if better else self._fruitless + 1
        if seconds is not None and good:
            self._seen[index] = math.log(seconds)
        self.inner.observe(index, seconds, noise=noise, pruned=pruned)

    def skip(self, index: int) -> None:
        self.inner.skip(index)

    def trust(self) -> float:
        """Return how far the donor is believed, from 0 to 1: its rank correlation so far, slowly outweighing hope."""
        guess, measured = self._both()
        count = len(guess)
        right = 0.0
        if count > 1 and np.ptp(guess) > 0 and np.ptp(measured) > 0:
            right = float(np.corrcoef(_ranks(guess), _ranks(measured))[0, 1])
        return max(0.0, (count * right + WEIGHT * TRUST) / (count + WEIGHT))

    def _both(self) -> tuple[Floats, Floats]:
        """Return guesses and measurements of what was measured."""
        missing = np.array([row for row in self._seen if row not in self._guess], dtype=np.int64)
        self._guess |= dict(zip(missing.tolist(), self._model.predict(missing).tolist(), strict=True))
        return np.array([self._guess[row] for row in self._seen]), np.array(list(self._seen.values()))

    def _choose(self) -> int | None:
        """Return the untried row of the pool with the largest expected improvement, or None when there is none."""
        free = self._pool[~self.inner.taken[self._pool]]
        if not len(free):
            return None
        guess = np.array([self._guess[row] for row in free.tolist()])
        if len(self._seen) < 2:
            return int(free[np.argmin(guess)])
        mean, deviation = self._corrected(free, guess)
        gain = _improvement(mean, deviation, min(self._seen.values()))
        return int(free[np.argmax(gain) if gain.max() > 0 else np.argmin(mean)])

    def _corrected(self, rows: Indices, guess: Floats) -> tuple[Floats, Floats]:
        """Return the guess as a line through the measurements says, and what neighbours were off from that line.

        Pending rows count as measured at their guess.
        """
        from scipy.linalg import cho_factor, cho_solve

        kernel, candidates = self._model.kernel, self.inner.candidates
        then, now = self._both()
        slope, level = _line(then, now)
        off = now - level - slope * then
        known = np.array([*self._seen, *self.inner.pending], dtype=np.int64)
        off = np.concatenate([off, np.zeros(len(known) - len(off))])
        scale = max(float(np.sqrt(np.mean(off[: len(now)] ** 2))), 0.02)
        codes = candidates.codes_of(known)
        columns = kernel.columns(codes)
        with one_thread():
            inner = kernel.matrix(codes, columns) + (kernel.noise + JITTER) * np.eye(len(known))
            cross = kernel.matrix(candidates.codes_of(rows), columns)
            factor = cho_factor(inner, lower=True)
            reached = kernel.scale - np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
            corrected = cross @ cho_solve(factor, off)
        deviation = scale * np.sqrt(np.maximum(reached, 1e-9) / kernel.scale + kernel.noise)
        return level + slope * guess + corrected, deviation

    def _choose_pool(self, random: np.random.Generator) -> Indices:
        """Return the rows to choose among: all of a small space, else the donor's, their neighbours and random ones."""
        candidates, donor = self.inner.candidates, self._donor
        if len(candidates) <= POOL:
            return np.arange(len(candidates))
        near = [candidates.neighbours(int(row)) for row in donor.rows[np.argsort(donor.values)[:NEAR]]]
        return np.unique(np.concatenate([donor.rows, *near, random.integers(0, len(candidates), DRAWN)]))


def warmed(inner: Sampler, donor: Known, seed: int) -> Sampler:
    """Return ``inner`` with a donor's results to begin with."""
    assert isinstance(inner, Ledger)  # as all our samplers are
    return WarmSampler(inner, donor, seed)


def _improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the expected improvement below ``best``; 0 where it is too small for a float."""
    from scipy.special import ndtr

    z = (best - mean) / deviation
    return np.asarray(deviation * (z * ndtr(z) + np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)))


def _line(then: Floats, now: Floats) -> tuple[float, float]:
    """Fit ``now = level + slope * then`` with a slope near 1 unless the measurements say otherwise, never below 0."""
    apart = then - then.mean()
    steep = (apart @ (now - now.mean()) + 0.1) / (apart @ apart + 0.1)
    slope = float(np.clip(steep, 0.0, 1.5))
    return slope, float(now.mean() - slope * then.mean())


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values))


def transfer(donor: Candidates, known: Known, target: Candidates) -> Known:
    """Return a donor's results by the rows of another space; what has no equal there is left out.

    A parameter of the same name and value is the same; one that only one of them has must have a single choice.
    """
    columns = {axis.name: column for column, axis in enumerate(donor.axes)}
    names = {name: group for group, name in enumerate(target.names)}
    found: dict[int, int] = {}
    unknown = {axis.name for axis in donor.axes if len(axis.choices) > 1} - {axis.name for axis in target.axes}
    for place, row in enumerate([] if unknown else known.rows.tolist()):
        group = names.get(donor.names[donor.groups[row]], 0 if len(names) == 1 else None)
        choices = _translated(donor, row, columns, target)
        index = None if group is None or choices is None else target.find(choices, group)
        if index is not None:
            found.setdefault(index, place)
    places = np.array(list(found.values()), dtype=np.int64)
    return Known(
        rows=np.array(list(found), dtype=np.int64), values=known.values[places], variances=known.variances[places]
    )


def _translated(donor: Candidates, row: int, columns: dict[str, int], target: Candidates) -> Rows | None:
    choices: Rows = np.full(len(target.axes), ABSENT, dtype=np.uint8)
    for column, axis in enumerate(target.axes):
        if axis.name not in columns:
            if len(axis.choices) > 1:
                return None
            choices[column] = 0
            continue
        there = donor.choices[row, columns[axis.name]]
        if there == ABSENT:
            continue
        value = donor.axes[columns[axis.name]].choices[there]
        if value not in axis.choices:
            return None
        choices[column] = axis.choices.index(value)
    return choices
