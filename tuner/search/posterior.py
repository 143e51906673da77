"""What a Gaussian process believes about every row of a pool, kept up to date one known row at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tuner.search.bounds import Flags, raised
from tuner.search.candidates import Floats, Rows
from tuner.search.evidence import JITTER
from tuner.search.gp import Kernel

SINGLE = np.float32  # of what is kept for every row of the pool
Singles = npt.NDArray[np.float32]


class Posterior:
    """What is believed about every row of a pool, kept up to date one known row at a time.

    Shapes:
        ``_whitened``: (known, pool), grown in place, in single precision; ``variance``: (pool,).
    """

    def __init__(self, kernel: Kernel, pool: Rows, known: Rows, noise: Floats) -> None:
        from scipy.linalg import cholesky, solve_triangular

        self._kernel, self._pool = kernel, kernel.columns(pool)
        self.size = count = len(known)
        room = count + 32
        self._covariance: Floats = np.zeros((room, room))
        self._factor: Floats = np.zeros((room, room))
        self._whitened: Singles = np.zeros((room, len(pool)), dtype=SINGLE)
        self._rows: Rows = np.zeros((room, known.shape[1]), dtype=np.uint8)
        self._rows[:count] = known
        self._covariance[:count, :count] = kernel.matrix(known, kernel.columns(known)) + np.diag(
            noise + kernel.noise + JITTER
        )
        self._factor[:count, :count] = cholesky(self._covariance[:count, :count], lower=True)
        cross = kernel.matrix(known, self._pool, SINGLE)
        factor = self._factor[:count, :count].astype(SINGLE)
        self._whitened[:count] = solve_triangular(factor, cross, lower=True, check_finite=False)
        explained = np.einsum("ij,ij->j", self._whitened[:count], self._whitened[:count])
        self.variance: Floats = kernel.scale - explained.astype(np.float64)

    def add(self, row: Rows, noise: float = 0.0) -> None:
        """Condition on one more row; its value may still be open."""
        from scipy.linalg import solve_triangular

        if self.size == len(self._rows):
            self._grow()
        m = self.size
        with_known = self._kernel.matrix(row[None], self._kernel.columns(self._rows[:m]))[0]
        own = self._kernel.scale + self._kernel.noise + noise + JITTER
        left = solve_triangular(self._factor[:m, :m], with_known, lower=True, check_finite=False)
        last = np.sqrt(max(own - left @ left, 1e-10))
        explained = left.astype(SINGLE) @ self._whitened[:m]
        fresh = (self._kernel.matrix(row[None], self._pool, SINGLE)[0] - explained) / SINGLE(last)
        self._covariance[m, :m] = self._covariance[:m, m] = with_known
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

    def among(self, known: Flags) -> Floats:
        """Return the covariance of the rows whose value is known, noise included."""
        return self._covariance[: self.size, : self.size][np.ix_(known, known)]

    def believe(
        self, target: Floats, known: Flags, noise: Floats, bounded: Flags, base: Floats | float = 0.0
    ) -> tuple[Floats, float]:
        """Return ``target`` with what is open at its expectation, and the lowest true value.

        Open are the rows that are not ``known``, and by how much the ``bounded`` ones exceed their bound. A
        measurement with noise is expected to be truly a little nearer to what the model says than it was.

        Args:
            base: What was taken off the values, and counts among the true ones.
        """
        from scipy.linalg import cho_factor, cho_solve

        inner = self._covariance[: self.size, : self.size]
        among = self.among(known)
        believed = target.copy()
        believed[known] = raised(among, target[known], bounded[known])
        solved = cho_solve(cho_factor(among, lower=True), believed[known])
        believed[~known] = inner[np.ix_(~known, known)] @ solved
        whole = believed + base
        true = (whole[known] - noise[known] * solved)[~bounded[known] if not bounded.all() else slice(None)]
        return believed, float(min(true.min(initial=np.inf), whole[~known].min(initial=np.inf)))

    def mean(self, target: Floats) -> Floats:
        """Return the pool's expected values, given those of the rows in the order in which they came."""
        from scipy.linalg import solve_triangular

        whitened = solve_triangular(self._factor[: self.size, : self.size], target, lower=True, check_finite=False)
        return np.asarray(whitened.astype(SINGLE) @ self._whitened[: self.size], dtype=np.float64)
