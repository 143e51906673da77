"""The logarithm of the expected improvement, from a table: it is a function of one number per row."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from tuner.search.arrays import Floats

LOW, HIGH, STEP = -40.0, 10.0, 1 / 128  # range and step of the table; interpolation is within STEP**2 / 8


def log_ei(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the logarithm of the expected improvement below ``best``, without underflow.

    Source:
        Ament et al., "Unexpected improvements to expected improvement for Bayesian optimization", NeurIPS 2023.
    """
    z = (best - mean) / deviation
    position = (np.clip(z, LOW, HIGH) - LOW) / STEP
    left = np.minimum(position.astype(np.int64), len(_table()) - 2)
    level, slope = _table()[left], _slopes()[left]
    result = level + slope * (position - left) + np.log(deviation)
    far = z < LOW
    if far.any():  # the density's tail, over the square of how far out it is
        result[far] += 0.5 * (LOW**2 - z[far] ** 2) + 2 * np.log(LOW / z[far])
    above = z > HIGH
    result[above] += np.log(z[above] / HIGH)
    return np.asarray(result)


@cache
def _table() -> Floats:
    """Return log(density(z) + z * distribution(z)) of a standard normal at each step."""
    from scipy.special import erfcx, ndtr

    z = np.linspace(LOW, HIGH, round((HIGH - LOW) / STEP) + 1)
    near, far = z[z > -1], z[z <= -1]
    density = np.exp(-0.5 * near**2) / math.sqrt(2 * math.pi)
    ratio = 1 + far * math.sqrt(math.pi / 2) * erfcx(-far / math.sqrt(2))
    tail = -0.5 * far**2 - 0.5 * math.log(2 * math.pi) + np.log(ratio)
    return np.concatenate([tail, np.log(density + near * ndtr(near))])


@cache
def _slopes() -> Floats:
    return np.diff(_table())
