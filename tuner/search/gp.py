"""A Gaussian process over configurations whose parameters may matter alone, together, or not at all.

The kernel is a product over features of ``1 - share + share * matern(distance / length)``. Multiplied out it is a sum
over all subsets of features, so it holds main effects, which a few trials show, beside interactions of any order.
Features have few values, so each factor is a small table and a covariance is a chain of look-ups.

Source:
    Duvenaud, Nickisch, Rasmussen, "Additive Gaussian Processes", NIPS 2011; Plate, "Accuracy versus interpretability
    in flexible modeling", 1999 (the tunable share).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.search.bounds import Flags, raised
from tuner.search.candidates import Floats, Indices, Rows
from tuner.search.features import Feature

JITTER = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Normal priors, as (mean, deviation), of the kernel's parameters on their unbounded scales.

    ``exact`` is the share of features that only tell whether two numbers are the same.
    """

    length: tuple[float, float] = (-0.7, 1.0)
    share: tuple[float, float] = (0.0, 1.5)
    exact: tuple[float, float] = (-3.0, 1.5)
    noise: tuple[float, float] = (-7.0, 1.5)
    scale: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class _Apart:
    """The few kinds of pairs that the features of an axis can tell apart.

    Shapes:
        ``kinds``: (choices, choices), a number per pair; each of ``distances``: (number of kinds,), one per feature.
    """

    kinds: Indices
    distances: tuple[Floats, ...]

    @classmethod
    def of(cls, tables: Sequence[Floats]) -> _Apart:
        stacked = np.stack([table.ravel() for table in tables], axis=1)
        _, first, kinds = np.unique(np.round(stacked, 9), axis=0, return_index=True, return_inverse=True)
        return cls(kinds.reshape(tables[0].shape), tuple(stacked[first].T.copy()))


class Kernel:
    """The covariance, its hyperparameters, and their maximum a posteriori estimate."""

    def __init__(self, features: Sequence[Feature], prior: Prior) -> None:
        self.features = tuple(features)
        self.axes = sorted({feature.column for feature in features})
        self.sizes = {feature.column: len(feature.distances) for feature in features}
        members = {axis: [i for i, feature in enumerate(features) if feature.column == axis] for axis in self.axes}
        self.apart = {axis: _Apart.of([features[i].distances for i in members[axis]]) for axis in self.axes}
        self.parts: dict[int, dict[int, slice]] = {axis: {} for axis in self.axes}
        tables, owners, start = [np.zeros(0)], [np.zeros(0, dtype=np.int64)], 0
        for axis in self.axes:
            for position, distances in zip(members[axis], self.apart[axis].distances, strict=True):
                self.parts[axis][position] = slice(start, start := start + len(distances))
                tables.append(distances)
                owners.append(np.full(len(distances), position))
        self._owner = np.concatenate(owners)
        self._distances = np.sqrt(5) * np.concatenate(tables)
        count = len(self.features)
        shares = [prior.exact if feature.exact else prior.share for feature in features]
        priors = [prior.length] * count + shares + [prior.noise, prior.scale]
        self._mean, self._deviation = (np.array(side) for side in zip(*priors, strict=True))
        self.theta = self._mean.copy()
        self._bounds = [(-3.5, 3.5)] * count + [(-6.0, 6.0)] * count + [(-12.0, 0.0), (-4.0, 4.0)]
        self._tables = self._axis_tables()

    @property
    def noise(self) -> float:
        return float(np.exp(self.theta[-2]))

    @property
    def scale(self) -> float:
        """Variance of the process at any point."""
        return float(np.exp(self.theta[-1]))

    def matrix(self, left: Rows, right: Sequence[Indices]) -> Floats:
        """Return the covariance of each row of ``left`` with each of ``right``, without noise.

        Args:
            right: As :meth:`columns` gives it.
        """
        result = np.full((len(left), len(right[-1])), self.scale)
        for axis, column, table in zip(self.axes, right, self._tables, strict=False):
            for position, row in enumerate(table[left[:, axis]]):
                result[position] *= row[column]
        return result

    def columns(self, rows: Rows) -> list[Indices]:
        """Lay out codes for look-ups: a contiguous column per axis, then their row numbers."""
        used = [np.ascontiguousarray(rows[:, axis], dtype=np.int64) for axis in self.axes]
        return [*used, np.arange(len(rows))]

    def fit(self, rows: Rows, target: Floats, noise: Floats, steps: int) -> None:
        """Move the hyperparameters towards their most probable values, from where they stand."""
        from scipy.optimize import minimize

        evidence = _Evidence(self, rows, target, noise)

        def loss(theta: Floats) -> tuple[float, Floats]:
            value, slope = evidence(theta)
            away = (theta - self._mean) / self._deviation
            return value + 0.5 * float(away @ away), slope + away / self._deviation

        found = minimize(loss, self.theta, jac=True, method="L-BFGS-B", bounds=self._bounds, options={"maxiter": steps})
        self.theta = found.x
        self._tables = self._axis_tables()

    def _axis_tables(self) -> list[Floats]:
        products = self.by_axis(self.factors(self.theta)[0])
        return [product[self.apart[axis].kinds] for axis, product in zip(self.axes, products, strict=True)]

    def by_axis(self, factors: Floats) -> list[Floats]:
        """Multiply the factors of each axis' features, in the order of ``axes``; a result has a value per kind."""
        products = []
        for axis in self.axes:
            first, *others = self.parts[axis].values()
            product = factors[first]
            for part in others:
                product = product * factors[part]
            products.append(product)
        return products

    def factors(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return each feature's factor, and the slopes of its logarithm by log length and by logit of the share.

        Shapes:
            All features' kinds of pairs one after the other; ``parts`` says where each is.
        """
        count = len(self.features)
        length = np.exp(theta[:count])[self._owner]
        share = (1 / (1 + np.exp(-theta[count : 2 * count])))[self._owner]
        reach = self._distances / length
        decay = np.exp(-reach)
        matern = (1 + reach + reach**2 / 3) * decay
        value = 1 - share + share * matern + 1e-12
        by_length = share * reach**2 * (1 + reach) / 3 * decay / value
        return value, by_length, share * (1 - share) * (matern - 1) / value


class _Evidence:
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


class Posterior:
    """What is believed about every row of a pool, kept up to date one known row at a time.

    Shapes:
        ``_whitened``: (known, pool), grown in place; ``variance``: (pool,).
    """

    def __init__(self, kernel: Kernel, pool: Rows, known: Rows, noise: Floats) -> None:
        from scipy.linalg import cholesky, solve_triangular

        self._kernel, self._pool = kernel, kernel.columns(pool)
        self.size = count = len(known)
        room = count + 32
        self._covariance: Floats = np.zeros((room, room))
        self._factor: Floats = np.zeros((room, room))
        self._whitened: Floats = np.zeros((room, len(pool)))
        self._rows: Rows = np.zeros((room, known.shape[1]), dtype=np.uint8)
        self._rows[:count] = known
        self._covariance[:count, :count] = kernel.matrix(known, kernel.columns(known)) + np.diag(
            noise + kernel.noise + JITTER
        )
        self._factor[:count, :count] = cholesky(self._covariance[:count, :count], lower=True)
        cross = kernel.matrix(known, self._pool)
        self._whitened[:count] = solve_triangular(self._factor[:count, :count], cross, lower=True, check_finite=False)
        self.variance: Floats = kernel.scale - np.einsum("ij,ij->j", self._whitened[:count], self._whitened[:count])

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
        fresh = (self._kernel.matrix(row[None], self._pool)[0] - left @ self._whitened[:m]) / last
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

    def believe(self, target: Floats, known: Flags, noise: Floats, bounded: Flags) -> tuple[Floats, float]:
        """Return ``target`` with what is open at its expectation, and the lowest true value.

        Open are the rows that are not ``known``, and by how much the ``bounded`` ones exceed their bound. A
        measurement with noise is expected to be truly a little nearer to what the model says than it was.
        """
        from scipy.linalg import cho_factor, cho_solve

        inner = self._covariance[: self.size, : self.size]
        among = inner[np.ix_(known, known)]
        believed = target.copy()
        believed[known] = raised(among, target[known], bounded[known])
        solved = cho_solve(cho_factor(among, lower=True), believed[known])
        believed[~known] = inner[np.ix_(~known, known)] @ solved
        true = (believed[known] - noise[known] * solved)[~bounded[known] if not bounded.all() else slice(None)]
        return believed, float(min(true.min(initial=np.inf), believed[~known].min(initial=np.inf)))

    def mean(self, target: Floats) -> Floats:
        """Return the pool's expected values, given those of the rows in the order in which they came."""
        from scipy.linalg import solve_triangular

        whitened = solve_triangular(self._factor[: self.size, : self.size], target, lower=True, check_finite=False)
        return np.asarray(whitened @ self._whitened[: self.size])
