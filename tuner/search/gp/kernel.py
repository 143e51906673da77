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
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.search.arrays import Floats, Indices, Rows
from tuner.search.features import Feature, Kind

Normal = tuple[float, float]
JITTER = 1e-8  # variance added to the diagonal, so that a covariance can be factorised


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Normal priors, as (mean, deviation), of the kernel's parameters on their unbounded scales.

    Each kind of feature has one for its length and one for its share. The defaults are the rounded means and deviations
    of fits to 250 results of each of eleven recorded spaces; ``tests/benchmarks/search.py`` repeats the fits, and tests
    them on spaces that were left out.
    """

    number: tuple[Normal, Normal] = ((-0.2, 0.8), (0.3, 1.1))
    valuation: tuple[Normal, Normal] = ((0.2, 0.8), (-0.3, 1.1))
    exact: tuple[Normal, Normal] = ((0.3, 0.8), (-2.0, 0.8))
    flag: tuple[Normal, Normal] = ((0.3, 1.1), (-0.9, 1.1))
    word: tuple[Normal, Normal] = ((0.1, 1.1), (-0.6, 1.1))
    volume: tuple[Normal, Normal] = ((-0.9, 0.8), (-0.2, 0.8))
    noise: Normal = (-7.0, 1.5)
    scale: Normal = (0.0, 1.0)

    def of(self, kind: Kind) -> tuple[Normal, Normal]:
        found: tuple[Normal, Normal] = getattr(self, kind)
        return found

    @classmethod
    def same(cls, length: Normal, share: Normal, exact: Normal, noise: Normal) -> Prior:
        """Return one prior for all kinds of features, except that the share of the exact ones is ``exact``."""
        both = (length, share)
        return cls(number=both, valuation=both, exact=(length, exact), flag=both, word=both, volume=both, noise=noise)


@dataclass(frozen=True, slots=True)
class PairClasses:
    """The few classes of pairs of choices that the features of an axis can tell apart.

    Shapes:
        ``labels``: (choices, choices), the class of each pair; each of ``distances``: (classes,), one per feature.
    """

    labels: Indices
    distances: tuple[Floats, ...]

    @classmethod
    def of(cls, tables: Sequence[Floats]) -> PairClasses:
        stacked = np.stack([table.ravel() for table in tables], axis=1)
        _, first, labels = np.unique(np.round(stacked, 9), axis=0, return_index=True, return_inverse=True)
        return cls(labels.reshape(tables[0].shape), tuple(stacked[first].T.copy()))


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of codes prepared for look-ups: for each group of axes, each row's place in their joint table."""

    count: int
    groups: tuple[tuple[tuple[int, ...], Indices], ...]


class Kernel:
    """The covariance, its hyperparameters, and their prior.

    Attributes:
        theta: The hyperparameters on their unbounded scales: lengths, shares, noise, scale.
        prior_mean, prior_deviation: Mean and standard deviation of the normal prior of ``theta``.
    """

    def __init__(self, features: Sequence[Feature], prior: Prior) -> None:
        self.features = tuple(features)
        self.axes = sorted({feature.column for feature in features})
        self.sizes = {feature.column: len(feature.distances) for feature in features}
        members = {axis: [i for i, feature in enumerate(features) if feature.column == axis] for axis in self.axes}
        self.pairs = {axis: PairClasses.of([features[i].distances for i in members[axis]]) for axis in self.axes}
        self.slices: dict[int, dict[int, slice]] = {axis: {} for axis in self.axes}
        tables, owners, start = [np.zeros(0)], [np.zeros(0, dtype=np.int64)], 0
        for axis in self.axes:
            for position, distances in zip(members[axis], self.pairs[axis].distances, strict=True):
                self.slices[axis][position] = slice(start, start := start + len(distances))
                tables.append(distances)
                owners.append(np.full(len(distances), position))
        self._owner = np.concatenate(owners)
        self._distances = np.sqrt(5) * np.concatenate(tables)
        count = len(self.features)
        lengths, shares = ([prior.of(feature.kind)[side] for feature in features] for side in (0, 1))
        priors = [*lengths, *shares, prior.noise, prior.scale]
        self._centre, self.prior_deviation = (np.array(side) for side in zip(*priors, strict=True))
        self.prior_mean = self._centre
        self.theta = self._centre.copy()
        self.bounds = [(-3.5, 3.5)] * count + [(-6.0, 6.0)] * count + [(-12.0, 0.0), (-4.0, 4.0)]
        self._tables = self._axis_tables()

    @property
    def noise(self) -> float:
        return float(np.exp(self.theta[-2]))

    @property
    def scale(self) -> float:
        """Variance of the process at any point."""
        return float(np.exp(self.theta[-1]))

    def matrix(self, left: Rows, right: Layout, dtype: type = np.float64) -> npt.NDArray[Any]:
        """Return the covariance of each row of ``left`` with each of ``right``, without noise."""
        result: npt.NDArray[Any] = np.full((len(left), right.count), self.scale, dtype=dtype)
        tables = dict(zip(self.axes, self._tables, strict=True))
        for axes, column in right.groups:
            joint: npt.NDArray[Any] = np.ones((len(left), 1), dtype=dtype)
            for axis in axes:
                rows: npt.NDArray[Any] = tables[axis][left[:, axis]].astype(dtype)
                joint = (joint[:, :, None] * rows[:, None, :]).reshape(len(left), -1)
            for position, row in enumerate(joint):
                result[position] *= row[column]
        return result

    def layout(self, rows: Rows) -> Layout:
        """Lay out codes for look-ups: axes share a table as long as it is much smaller than the number of rows."""
        most, groups = max(len(rows) // 8, 1), list[tuple[tuple[int, ...], Indices]]()
        size = most + 1
        for axis in self.axes:
            column = np.ascontiguousarray(rows[:, axis], dtype=np.int64)
            if size * self.sizes[axis] > most:
                groups.append(((axis,), column))
                size = self.sizes[axis]
                continue
            size *= self.sizes[axis]
            axes, before = groups.pop()
            groups.append(((*axes, axis), before * self.sizes[axis] + column))
        return Layout(len(rows), tuple(groups))

    def centre_on(self, other: Kernel, tightness: float) -> None:
        """Centre the prior on another kernel's fitted hyperparameters, except its scale.

        Args:
            tightness: The new prior deviations, relative to the present ones.
        """
        self._centre = np.append(other.theta[:-1], self._centre[-1])
        self.prior_deviation = np.append(tightness * self.prior_deviation[:-1], self.prior_deviation[-1])
        self.prior_mean = self._centre
        self.move_to(self._centre.copy())

    def log_prior(self) -> float:
        """Return the logarithm of the prior density of the hyperparameters, up to a constant."""
        away = (self.theta - self._centre) / self.prior_deviation
        return -0.5 * float(away @ away)

    def shift_prior(self, deviations: Floats) -> None:
        """Move the prior's means by multiples of its deviations, relative to their original values."""
        self.prior_mean = self._centre + deviations * self.prior_deviation

    def move_to(self, theta: Floats) -> None:
        """Take other hyperparameters."""
        self.theta = theta
        self._tables = self._axis_tables()

    def _axis_tables(self) -> list[Floats]:
        products = self.by_axis(self.factors(self.theta)[0])
        return [product[self.pairs[axis].labels] for axis, product in zip(self.axes, products, strict=True)]

    def by_axis(self, factors: Floats) -> list[Floats]:
        """Multiply the factors of each axis' features, in the order of ``axes``: a value per class of pairs."""
        products = []
        for axis in self.axes:
            first, *others = self.slices[axis].values()
            product = factors[first]
            for part in others:
                product = product * factors[part]
            products.append(product)
        return products

    def factors(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return each feature's factor, and the slopes of its logarithm by log length and by logit of the share.

        Shapes:
            The classes of pairs of all features, concatenated; ``slices`` gives each feature's part.
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
