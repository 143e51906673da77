"""Times of trials that were stopped early: the expected value, given the lower bound and the other results."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.arrays import Flags, Floats
from tuner.search.gp.conditioning import Covariance


def impute_censored(covariance: Covariance, target: Floats, censored: Flags) -> Floats:
    """Return ``target`` with every lower bound replaced by its expected value.

    Given all other values, each of them is normal; its expectation is that of the part above its bound.

    Args:
        covariance: Of the values, noise included.
        target: Values from a zero mean, lower bounds where ``censored``.

    Source:
        Hutter, Hoos, Leyton-Brown, "Bayesian optimization with censored response data", 2013.
    """
    if not censored.any():
        return target
    columns = np.flatnonzero(censored)
    unit: Floats = np.zeros((len(target), len(columns)))
    unit[columns, np.arange(len(columns))] = 1.0
    solved = covariance.solve(np.column_stack([target, unit]))
    precision = solved[columns, np.arange(1, len(columns) + 1)]
    deviation = 1 / np.sqrt(precision)
    expected = target[columns] - solved[columns, 0] / precision
    result = target.copy()
    result[columns] = np.maximum(target[columns], mean_above(expected, deviation, target[columns]))
    return result


def mean_above(mean: Floats, deviation: Floats, bound: Floats) -> Floats:
    """Return the expectation of normal variables known to exceed a bound."""
    from scipy.special import erfcx

    z = np.minimum((bound - mean) / deviation / math.sqrt(2), 1e6)
    hazard = math.sqrt(2 / math.pi) / np.maximum(erfcx(np.maximum(z, -20.0)), 1e-300)
    return np.asarray(mean + deviation * hazard)
