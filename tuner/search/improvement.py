"""The logarithm of the expected improvement."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.candidates import Floats


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the logarithm of the expected improvement below ``best``, without underflow.

    Source:
        Ament et al., "Unexpected improvements to expected improvement for Bayesian optimization", NeurIPS 2023.
    """
    from scipy.special import erfcx, ndtr

    z = (best - mean) / deviation
    near = z > -1
    result = np.log(deviation)
    density = np.exp(-0.5 * z[near] ** 2) / math.sqrt(2 * math.pi)
    result[near] += np.log(density + z[near] * ndtr(z[near]))
    far = z[~near]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 1 + far * math.sqrt(math.pi / 2) * erfcx(-far / math.sqrt(2))
    ratio = np.where(far < -1e3, far**-2.0, ratio)
    result[~near] += -0.5 * far**2 - 0.5 * math.log(2 * math.pi) + np.log(np.maximum(ratio, 1e-300))
    return result
