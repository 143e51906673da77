"""A Gaussian process given results: for any rows, and for a pool that is kept up to date one result at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tuner.search.arrays import Flags, Floats, Rows
from tuner.search.gp.censored import impute_censored
from tuner.search.gp.conditioning import Covariance
from tuner.search.gp.kernel import JITTER, Kernel

SINGLE = np.float32  # precision of what is kept for every row of a pool
Singles = npt.NDArray[np.float32]


def covariance_of(kernel: Kernel, rows: Rows, noise: Floats) -> Covariance:
    """Return the covariance of values at some rows, noise included: each row's own and the kernel's.

    Raises:
        numpy.linalg.LinAlgError: It has no factor.
    """
    return Covariance(kernel.matrix(rows, kernel.layout(rows)) + np.diag(noise + kernel.noise + JITTER))


class Posterior:
    """A kernel's process given the values of some rows, and the variance of each one's noise.

    Raises:
        numpy.linalg.LinAlgError: The covariance has no factor.
    """

    def __init__(self, kernel: Kernel, rows: Rows, target: Floats, noise: Floats) -> None:
        self._kernel, self._layout, self._target = kernel, kernel.layout(rows), target
        self._given = covariance_of(kernel, rows, noise)
        self._solved = self._given.solve(target)

    def at(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return the expected values of other rows, and their covariance with the given ones, whitened.

        Shapes:
            (others,) and (given, others).
        """
        cross = self._kernel.matrix(rows, self._layout).T
        return self._solved @ cross, self._given.whiten(cross)

    def variance(self, whitened: Floats) -> Floats:
        """Return the variance, without noise, of rows whose whitened covariance :meth:`at` gave."""
        return np.asarray(self._kernel.scale - np.einsum("ij,ij->j", whitened, whitened))

    def left_out(self) -> Floats:
        """Return what each given value is expected to be from all the others."""
        inverse = self._given.solve(np.eye(len(self._target)))
        return np.asarray(self._target - self._solved / np.diag(inverse))


class PoolPosterior:
    """The process at every row of a pool, kept up to date one given row at a time.

    Shapes:
        ``_whitened``: (given, pool), grown in place, in single precision; ``variance``: (pool,).
    """

    def __init__(self, kernel: Kernel, pool: Rows, given: Rows, noise: Floats) -> None:
        from scipy.linalg import solve_triangular

        self._kernel, self._pool = kernel, kernel.layout(pool)
        self.size = count = len(given)
        room = count + 32
        self._covariance: Floats = np.zeros((room, room))
        self._factor: Floats = np.zeros((room, room))
        self._whitened: Singles = np.zeros((room, len(pool)), dtype=SINGLE)
        self._rows: Rows = np.zeros((room, given.shape[1]), dtype=np.uint8)
        self._rows[:count] = given
        start = covariance_of(kernel, given, noise)
        self._covariance[:count, :count], self._factor[:count, :count] = start.matrix, start.factor
        cross = kernel.matrix(given, self._pool, SINGLE)
        factor = self._factor[:count, :count].astype(SINGLE)
        self._whitened[:count] = solve_triangular(factor, cross, lower=True, check_finite=False)
        explained = np.einsum("ij,ij->j", self._whitened[:count], self._whitened[:count])
        self.variance: Floats = kernel.scale - explained.astype(np.float64)

    def add(self, row: Rows, noise: float = 0.0) -> None:
        """Condition on one more row; its value may still be unknown."""
        from scipy.linalg import solve_triangular

        if self.size == len(self._rows):
            self._grow()
        m = self.size
        with_given = self._kernel.matrix(row[None], self._kernel.layout(self._rows[:m]))[0]
        own = self._kernel.scale + self._kernel.noise + noise + JITTER
        left = solve_triangular(self._factor[:m, :m], with_given, lower=True, check_finite=False)
        last = np.sqrt(max(own - left @ left, 1e-10))
        explained = left.astype(SINGLE) @ self._whitened[:m]
        fresh = (self._kernel.matrix(row[None], self._pool, SINGLE)[0] - explained) / SINGLE(last)
        self._covariance[m, :m] = self._covariance[:m, m] = with_given
        self._covariance[m, m] = own
        self._factor[m, :m], self._factor[m, m] = left, last
        self._whitened[m], self._rows[m] = fresh, row
        self.variance -= fresh**2
        self.size += 1

    def _grow(self) -> None:
        room = 2 * len(self._rows)
        for name in ("_covariance", "_factor", "_whitened", "_rows"):
            old = getattr(self, name)
            shape = (room, room) if name in ("_covariance", "_factor") else (room, old.shape[1])
            new = np.zeros(shape, dtype=old.dtype)
            new[: len(old), : old.shape[1]] = old
            setattr(self, name, new)

    def covariance_of(self, known: Flags) -> Covariance:
        """Return the covariance of the given rows whose value is known, noise included."""
        return Covariance(self._covariance[: self.size, : self.size][np.ix_(known, known)])

    def complete(
        self, target: Floats, known: Flags, noise: Floats, censored: Flags, base: Floats | float = 0.0
    ) -> tuple[Floats, float]:
        """Return ``target`` with unknown values at their expectation, and the lowest true value.

        Unknown are rows that are not ``known``, and the excess of ``censored`` ones over their bound. The true value
        behind a noisy measurement is expected to lie a little nearer to the model's prediction.

        Args:
            base: What was subtracted from the values, and counts among the true ones.
        """
        inner = self._covariance[: self.size, : self.size]
        covariance = self.covariance_of(known)
        complete = target.copy()
        complete[known] = impute_censored(covariance, target[known], censored[known])
        solved = covariance.solve(complete[known])
        complete[~known] = inner[np.ix_(~known, known)] @ solved
        whole = complete + base
        true = (whole[known] - noise[known] * solved)[~censored[known] if not censored.all() else slice(None)]
        return complete, float(min(true.min(initial=np.inf), whole[~known].min(initial=np.inf)))

    def mean(self, target: Floats) -> Floats:
        """Return the pool's expected values, given those of the rows in the order in which they were added."""
        from scipy.linalg import solve_triangular

        whitened = solve_triangular(self._factor[: self.size, : self.size], target, lower=True, check_finite=False)
        return np.asarray(whitened.astype(SINGLE) @ self._whitened[: self.size], dtype=np.float64)
