"""Simulated annealing over configurations that differ in one parameter."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.arrays import Flags
from tuner.search.candidates import Candidates
from tuner.search.samplers.base import PoolSampler

WARM, COLD = 0.5, 0.005  # temperature at the start of a walk, and the lowest
HALVING = 20  # results in which the temperature halves


class Walk:
    """The walk itself: its current point, and whether it moves to a measured neighbour.

    The temperature is relative: at 0.5 a neighbour 50% slower is accepted with probability 1/e. It halves every
    ``HALVING`` results and is reset when the walk is stuck and restarts elsewhere.
    """

    def __init__(self, candidates: Candidates, random: np.random.Generator) -> None:
        self._candidates, self._random = candidates, random
        self._here: int | None = None
        self._seconds = math.inf
        self._temperature = WARM

    def choose(self, taken: Flags) -> int | None:
        """Return a random free neighbour of the current point, or None if there is none and the walk restarts."""
        if self._here is not None:
            near = self._candidates.neighbours(self._here)
            free = near[~taken[near]]
            if len(free):
                return int(self._random.choice(free))
            self._here, self._seconds, self._temperature = None, math.inf, WARM
        return None

    def learn(self, index: int, seconds: float | None) -> None:
        """Move to a measured row, or stay; a failed one (None) only cools the walk."""
        self._temperature = max(COLD, self._temperature * 0.5 ** (1 / HALVING))
        if seconds is None:
            return
        worse = math.log(seconds / self._seconds) if math.isfinite(self._seconds) else -1.0
        if worse <= 0 or self._random.random() < math.exp(-worse / self._temperature):
            self._here, self._seconds = index, seconds


class AnnealSampler(PoolSampler):
    """Simulated annealing from a random start; a dead end starts again at random."""

    def __init__(self, candidates: Candidates, seed: int) -> None:
        super().__init__(candidates, seed)
        self._walk = Walk(candidates, self.random)

    def choose(self) -> int:
        row = self._walk.choose(self.taken)
        return self.draw() if row is None else row

    def learn(self, index: int, seconds: float | None, noise: float, pruned: bool) -> None:
        self._walk.learn(index, None if seconds is None or not np.isfinite(seconds) else seconds)
