"""The two samplers that learn nothing."""

from __future__ import annotations

import numpy as np

from tuner.search.arrays import Indices
from tuner.search.samplers.base import PoolSampler


class RandomSampler(PoolSampler):
    """Each unseen row with equal probability."""


class GridSampler(PoolSampler):
    """All rows by golden-ratio strides through their lexicographic order: evenly spread wherever it stops.

    The order does not depend on the seed.
    """

    def order(self) -> Indices:
        n = len(self.candidates)
        stride = next(step for step in range(max(1, round(n * 0.6180339887)), 2 * n + 2) if np.gcd(step, n) == 1)
        return np.arange(n, dtype=np.int64) * stride % n
