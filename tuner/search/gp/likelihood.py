"""The likelihood of a kernel's hyperparameters, and the most probable ones."""

from __future__ import annotations

import numpy as np

from tuner.search.arrays import Floats, Rows
from tuner.search.gp.kernel import JITTER, Kernel

IMPOSSIBLE = 1e10  # loss where the covariance has no factor


def fit(kernel: Kernel, rows: Rows, target: Floats, noise: Floats, steps: int) -> None:
    """Move a kernel's hyperparameters towards their maximum a posteriori estimate, from where they are.

    Args:
        target: A value per row, around zero.
        noise: The variance of each by measurement, beside the kernel's own.
        steps: Most iterations.
    """
    from scipy.optimize import minimize

    likelihood = NegativeLogLikelihood(kernel, rows, target, noise)

    def loss(theta: Floats) -> tuple[float, Floats]:
        value, slope = likelihood(theta)
        away = (theta - kernel.prior_mean) / kernel.prior_deviation
        return value + 0.5 * float(away @ away), slope + away / kernel.prior_deviation

    limits = {"maxiter": steps}
    found = minimize(loss, kernel.theta, jac=True, method="L-BFGS-B", bounds=kernel.bounds, options=limits)
    kernel.move_to(found.x)


class NegativeLogLikelihood:
    """Negative log likelihood of some data as a function of the hyperparameters, with its gradient.

    Works on the lower triangle. The gradient is summed first over equal pairs of choices, then over the small tables.
    """

    def __init__(self, kernel: Kernel, rows: Rows, target: Floats, noise: Floats) -> None:
        self._kernel, self._target, self._noise = kernel, target, noise
        self._lower = np.tril_indices(len(target))
        self._diagonal = np.arange(len(target))
        first, second = rows[self._lower[0]].astype(np.int64), rows[self._lower[1]].astype(np.int64)
        self._pairs = {axis: kernel.pairs[axis].labels[first[:, axis], second[:, axis]] for axis in kernel.axes}
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
            return IMPOSSIBLE, np.zeros_like(theta)
        solved, _ = lapack.dpotrs(factor, self._target, lower=1)
        inverse, _ = lapack.dpotri(factor, lower=1)
        value = 0.5 * float(self._target @ solved) + float(np.log(np.diag(factor)).sum())
        slopes = 0.5 * (inverse[self._lower] - solved[self._lower[0]] * solved[self._lower[1]]) * self._weight
        gradient = np.zeros_like(theta)
        weighted = slopes * flat
        for axis, pairs in self._pairs.items():
            sums = np.bincount(pairs, weighted, minlength=len(kernel.pairs[axis].distances[0]))
            for position, part in kernel.slices[axis].items():
                gradient[position] = sums @ by_length[part]
                gradient[count + position] = sums @ by_share[part]
        gradient[-2] = noise * 0.5 * float(np.trace(inverse) - solved @ solved)
        gradient[-1] = float(weighted.sum())
        return value, gradient
