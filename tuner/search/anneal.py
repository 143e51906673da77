"""Simulated annealing over configurations that differ in one parameter."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.candidates import Candidates
from tuner.search.samplers import PoolSampler

WARM, COLD = 0.5, 0.005
HALVING = 20


class Walk:
    """The walk itself: where it stands, and whether it steps to a measured neighbour.

    The temperature is relative: at 0.5 a neighbour 50% slower is accepted with probability 1/e. It halves every
    ``HALVING`` results and is warm again when the walk is stuck and starts elsewhere.
    """

    def __init__(self, pool: PoolSampler) -> None:
        self._pool = pool
        self._here: int | None = None
        self._seconds = math.inf
        self._temperature = WARM

    def choose(self) -> int:
        """Return a random unseen neighbour of the current point, or a random row when there is none."""
        if self._here is not None:
            near = self._pool.candidates.neighbours(self._here)
            free = near[~self._pool.taken[near]]
            if len(free):
                return int(self._pool.random.choice(free))
            self._here, self._seconds, self._temperature = None, math.inf, WARM
        return self._pool.draw()

    def learn(self, index: int, seconds: float | None) -> None:
        self._temperature = max(COLD, self._temperature * 0.5 ** (1 / HALVING))
        if seconds is None:
            return
        worse = math.log(seconds / self._seconds) if math.isfinite(self._seconds) else -1.0
        if worse <= 0 or self._pool.random.random() < math.exp(-worse / self._temperature):
            self._here, self._seconds = index, seconds


class AnnealSampler(PoolSampler):
    """Simulated annealing from a random start; a dead end starts again at random."""

    def __init__(self, candidates: Candidates, seed: int) -> None:
        super().__init__(candidates, seed)
        self._walk = Walk(self)

    def choose(self) -> int:
        return self._walk.choose()

    def learn(self, index: int, seconds: float | None, noise: float, pruned: bool) -> None:
        self._walk.learn(index, None if seconds is None or not np.isfinite(seconds) else seconds)
