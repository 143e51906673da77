"""What a trial that was stopped early would have taken: at least its bound, and what its neighbours say beyond that."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tuner.search.candidates import Floats

Flags = npt.NDArray[np.bool_]


def raised(covariance: Floats, target: Floats, bounded: Flags) -> Floats:
    """Return ``target`` with every lower bound raised to its expected value.

    Given all other values, each bounded one is normal; its expectation is that of the part above its bound.

    Args:
        covariance: Of the values, noise included.
        target: Values from a zero mean, bounds where ``bounded``.

    Source:
        Hutter, Hoos, Leyton-Brown, "Bayesian optimization with censored response data", 2013.
    """
    from scipy.linalg import cho_factor, cho_solve

    if not bounded.any():
        return target
    columns = np.flatnonzero(bounded)
    unit: Floats = np.zeros((len(target), len(columns)))
    unit[columns, np.arange(len(columns))] = 1.0
    solved = cho_solve(cho_factor(covariance, lower=True), np.column_stack([target, unit]))
    precision = solved[columns, np.arange(1, len(columns) + 1)]
    deviation = 1 / np.sqrt(precision)
    expected = target[columns] - solved[columns, 0] / precision
    result = target.copy()
    result[columns] = np.maximum(target[columns], above(expected, deviation, target[columns]))
    return result


def above(mean: Floats, deviation: Floats, bound: Floats) -> Floats:
    """Return the expectation of normal variables known to exceed a bound."""
    from scipy.special import erfcx

    z = np.minimum((bound - mean) / deviation / math.sqrt(2), 1e6)
    hazard = math.sqrt(2 / math.pi) / np.maximum(erfcx(np.maximum(z, -20.0)), 1e-300)
    return np.asarray(mean + deviation * hazard)
