"""Results in the form that models use, and their log as they arrive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tuner.search.arrays import Flags, Floats, Indices

MOST = 200  # results that one fit holds unless told otherwise


@dataclass(frozen=True, kw_only=True, eq=False)
class Observations:
    """Results of successful trials, each row once.

    Attributes:
        rows: Their numbers among the candidates.
        values: Logarithms of their seconds.
        variances: Variances of the values due to measurement noise.
        censored: Where the value is only a lower bound, since timing stopped early.
    """

    rows: Indices
    values: Floats
    variances: Floats
    censored: Flags

    @classmethod
    def of(cls, rows: Indices, values: Floats, variances: Floats) -> Observations:
        """Return observations of which none counts as a bound."""
        return cls(rows=rows, values=values, variances=variances, censored=np.zeros(len(rows), dtype=bool))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def _places(self) -> dict[int, int]:
        return dict(zip(self.rows.tolist(), range(len(self)), strict=True))

    def holds(self, rows: Iterable[int]) -> Flags:
        """Tell which of some rows have a result."""
        return np.array([row in self._places for row in rows], dtype=bool)

    def of_rows(self, rows: Iterable[int]) -> Observations:
        """Return the results of some rows, in their order."""
        return self.at([self._places[row] for row in rows])

    def at(self, places: Sequence[int] | Indices | Flags) -> Observations:
        """Return the results at some positions of the arrays."""
        where = np.asarray(places) if len(places) else np.zeros(0, dtype=np.int64)
        return Observations(
            rows=self.rows[where],
            values=self.values[where],
            variances=self.variances[where],
            censored=self.censored[where],
        )

    @cached_property
    def by_value(self) -> Indices:
        """Positions in the arrays, the fastest first."""
        return np.argsort(self.values, kind="stable").astype(np.int64)

    @property
    def fastest(self) -> int:
        """The row with the lowest value; a bound counts only where there is nothing else."""
        measured = np.flatnonzero(~self.censored)
        among = measured if len(measured) else np.arange(len(self))
        return int(self.rows[among[np.argmin(self.values[among])]])

    def some(self, most: int = MOST) -> Observations:
        """Return all, or else the fastest half of ``most`` and a random half of the others; always the same."""
        if len(self) <= most:
            return self
        half = most // 2
        others = np.random.default_rng(0).permutation(self.by_value[half:])[: most - half]
        return self.at(np.concatenate([self.by_value[:half], np.sort(others)]))

    def sample(self, most: int, random: np.random.Generator) -> Observations:
        """Return all, or else the fastest half of ``most`` and another random half of the others each time."""
        if len(self) <= most:
            return self
        half = most // 2
        others = random.choice(len(self) - half, size=most - half, replace=False) + half
        return self.at(self.by_value[np.concatenate([np.arange(half), np.sort(others)])])


class ObservationLog:
    """The results of a search so far; the last of several for a row counts."""

    def __init__(self) -> None:
        self._results: dict[int, tuple[float, float, bool]] = {}
        self._observations: Observations | None = None

    def __len__(self) -> int:
        return len(self._results)

    def record(self, row: int, value: float, variance: float, censored: bool) -> None:
        self._results[row], self._observations = (value, variance, censored), None

    def forget(self, row: int) -> None:
        """Drop a row's result: it failed since."""
        self._results.pop(row, None)
        self._observations = None

    @property
    def observations(self) -> Observations:
        """All results, in the order in which their rows were first observed."""
        if self._observations is None:
            values, variances, censored = zip(*self._results.values(), strict=True) if self._results else ((), (), ())
            self._observations = Observations(
                rows=np.array(list(self._results), dtype=np.int64),
                values=np.array(values, dtype=float),
                variances=np.array(variances, dtype=float),
                censored=np.array(censored, dtype=bool),
            )
        return self._observations
