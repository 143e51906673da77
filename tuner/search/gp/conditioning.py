"""Normal values given others: the one place that factors a covariance."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tuner.search.arrays import Floats


class Covariance:
    """The covariance of some normal values, factored when first needed.

    Raises:
        numpy.linalg.LinAlgError: It has no factor.
    """

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix

    @cached_property
    def factor(self) -> Floats:
        """Its lower Cholesky factor."""
        from scipy.linalg import cholesky

        return np.asarray(cholesky(self.matrix, lower=True))

    def solve(self, values: Floats) -> Floats:
        """Return the inverse covariance times ``values``."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self.factor, True), values))

    def whiten(self, values: Floats) -> Floats:
        """Return the inverse factor times ``values``: uncorrelated, each of variance 1."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self.factor, values, lower=True, check_finite=False))

    @property
    def log_root_determinant(self) -> float:
        """Half the logarithm of the determinant."""
        return float(np.log(np.diag(self.factor)).sum())
