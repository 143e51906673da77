"""What multiple of a guess some values are, and how probable the guess makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tuner.search.candidates import Floats

STEEP, DEVIATION = 1.0, 1.0  # of the multiple, before anything was measured


@dataclass(frozen=True, slots=True)
class Line:
    """The multiple of a guess in some values, its deviation, and the logarithm of how probable the values are.

    A guess of zeros gives the probability without one.
    """

    slope: float = 0.0
    deviation: float = 0.0
    evidence: float = 0.0

    @classmethod
    def fit(cls, covariance: Floats, values: Floats, guess: Floats) -> Line:
        """Return the line for values with this covariance around a multiple of ``guess``."""
        from scipy.linalg import cholesky, solve_triangular

        factor = cholesky(covariance, lower=True)
        white, guessed = solve_triangular(factor, np.column_stack([values, guess]), lower=True).T
        sure = 1 / DEVIATION**2
        precision = float(guessed @ guessed) + sure
        slope = (float(guessed @ white) + sure * STEEP) / precision
        gain = precision * slope**2 - sure * STEEP**2 - math.log(precision / sure)
        evidence = 0.5 * (gain - float(white @ white)) - float(np.log(np.diag(factor)).sum())
        return cls(slope, 1 / math.sqrt(precision), evidence)
