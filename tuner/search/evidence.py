"""How probable a Gaussian process makes some data, by its kernel's hyperparameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.search.candidates import Floats, Rows

if TYPE_CHECKING:
    from tuner.search.gp import Kernel

JITTER = 1e-8


class Evidence:
    """Negative log likelihood of some data as a function of the hyperparameters, with its gradient.

    Works on the lower triangle. A gradient is first summed over equal pairs of choices, then over the small tables.
    """

    def __init__(self, kernel: Kernel, rows: Rows, target: Floats, noise: Floats) -> None:
        self._kernel, self._target, self._noise = kernel, target, noise
        self._lower = np.tril_indices(len(target))
        self._diagonal = np.arange(len(target))
        first, second = rows[self._lower[0]].astype(np.int64), rows[self._lower[1]].astype(np.int64)
        self._pairs = {axis: kernel.apart[axis].kinds[first[:, axis], second[:, axis]] for axis in kernel.axes}
        self._weight = np.where(self._lower[0] == self._lower[1], 1.0, 2.0)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        from scipy.linalg import lapack

        kernel, count = self._kernel, len(self._kernel.features)
        noise = np.exp(theta[-2])
        factors, by_length, by_share = kernel.factors(theta)
        flat = np.full(len(self._lower[0]), np.exp(theta[-1]))
        for axis, table in zip(kernel.axes, kernel.by_axis(factors), strict=True):
            flat *= table[self._pairs[axis]]
        covariance: Floats = np.zeros((len(self._target), len(self._target)))
        covariance[self._lower] = flat
        covariance[self._diagonal, self._diagonal] += noise + self._noise + JITTER
        factor, failed = lapack.dpotrf(covariance, lower=1, clean=1)
        if failed:
            return 1e10, np.zeros_like(theta)
        solved, _ = lapack.dpotrs(factor, self._target, lower=1)
        inverse, _ = lapack.dpotri(factor, lower=1)
        value = 0.5 * float(self._target @ solved) + float(np.log(np.diag(factor)).sum())
        slopes = 0.5 * (inverse[self._lower] - solved[self._lower[0]] * solved[self._lower[1]]) * self._weight
        gradient = np.zeros_like(theta)
        weighted = slopes * flat
        for axis, pairs in self._pairs.items():
            sums = np.bincount(pairs, weighted, minlength=len(kernel.apart[axis].distances[0]))
            for position, part in kernel.parts[axis].items():
                gradient[position] = sums @ by_length[part]
                gradient[count + position] = sums @ by_share[part]
        gradient[-2] = noise * 0.5 * float(np.trace(inverse) - solved @ solved)
        gradient[-1] = float(weighted.sum())
        return value, gradient
