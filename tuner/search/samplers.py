"""Which configurations to evaluate next: the contract of all samplers, and the two that need no model.

A sampler chooses among the rows of a :class:`Candidates` table, so that it can only ever name a valid configuration.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from tuner.errors import UsageError
from tuner.nearest import alternatives
from tuner.search.candidates import Candidates, Indices

SAMPLERS: Final = ("surrogate", "tpe", "anneal", "random", "grid")
QUICK: Final = ("anneal", "random", "grid")  # microseconds a proposal


class Sampler(Protocol):
    """Proposes row numbers, and learns from what became of them.

    Every number is a valid configuration, is proposed at most once, and never after it was observed or skipped.
    Equal seeds and equal calls give equal proposals. Results may come in any order, and for rows never proposed.
    """

    def propose(self, count: int) -> list[int]:
        """Return up to ``count`` rows not seen before: fewer when fewer are left, none when the space is exhausted."""

    def observe(self, index: int, seconds: float | None, *, noise: float = 0.0, pruned: bool = False) -> None:
        """Learn what one row took; of several results for a row the last counts.

        Args:
            seconds: None when it failed, which is evidence against its neighbourhood.
            noise: Relative standard error of ``seconds``: 0.01 is 1%.
            pruned: ``seconds`` is only a lower bound, since timing stopped early.
        """

    def skip(self, index: int) -> None:
        """Never propose this row, and expect no result: somebody else has it."""

    def has_some(self, hurry: bool = False) -> bool:
        """Say whether :meth:`propose` answers at once; with ``hurry``, somebody waits for it."""

    def close(self) -> None:
        """End what works for this sampler."""


class PoolSampler:
    """Samples a finite pool without replacement: keeps which rows are taken, and which of them still owe a result.

    Source:
        Settles, "Active Learning Literature Survey", 2009 (pool-based sampling).
    """

    def __init__(self, candidates: Candidates, seed: int) -> None:
        self.candidates = candidates
        self.random = np.random.default_rng(seed)
        self.taken: npt.NDArray[np.bool_] = np.zeros(len(candidates), dtype=bool)
        self.left = len(candidates)
        self.pending: dict[int, None] = {}
        self._order: Indices | None = None
        self._cursor = 0

    def propose(self, count: int) -> list[int]:
        rows: list[int] = []
        while len(rows) < count and self.left:
            rows += self._give([self.choose()])
        return rows

    def _give(self, rows: list[int]) -> list[int]:
        """Note that these rows are proposed, and return them."""
        for row in rows:
            self.take(row)
            self.pending[row] = None
        return rows

    def choose(self) -> int:
        """Return one row that is not taken; called only while there is one."""
        return self.draw()

    def observe(self, index: int, seconds: float | None, *, noise: float = 0.0, pruned: bool = False) -> None:
        self.take(index)
        self.pending.pop(index, None)
        self.learn(index, seconds, noise, pruned)

    def learn(self, index: int, seconds: float | None, noise: float, pruned: bool) -> None:
        """Use one result; samplers without a model ignore it."""

    def skip(self, index: int) -> None:
        self.take(index)
        self.pending.pop(index, None)

    def has_some(self, hurry: bool = False) -> bool:
        return True

    def close(self) -> None:
        return

    def take(self, index: int) -> None:
        if not 0 <= index < len(self.candidates):
            raise IndexError(index)
        if not self.taken[index]:
            self.taken[index] = True
            self.left -= 1

    def draw(self) -> int:
        """Return the next row of :meth:`order` that is not taken."""
        if self._order is None:
            self._order = self.order()
        while self.taken[self._order[self._cursor]]:
            self._cursor += 1
        return int(self._order[self._cursor])

    def order(self) -> Indices:
        """Return all rows in the order in which :meth:`draw` gives them: shuffled."""
        return self.random.permutation(len(self.candidates))

    def unseen(self) -> Indices:
        return np.flatnonzero(~self.taken)


class RandomSampler(PoolSampler):
    """Each unseen row with equal probability."""


class GridSampler(PoolSampler):
    """All rows by golden-ratio strides through their lexicographic order: spread wherever it stops.

    The order does not depend on the seed.
    """

    def order(self) -> Indices:
        n = len(self.candidates)
        stride = next(step for step in range(max(1, round(n * 0.6180339887)), 2 * n + 2) if np.gcd(step, n) == 1)
        return np.arange(n, dtype=np.int64) * stride % n


def make_sampler(name: str, candidates: Candidates, seed: int, hurried: bool = False) -> Sampler:
    """Construct a sampler by the name the user gives.

    Args:
        hurried: Trials take milliseconds: prefer a quick proposal to a deliberate one.

    Raises:
        UsageError: There is no sampler of this name.
    """
    match name:
        case "random":
            return RandomSampler(candidates, seed)
        case "grid":
            return GridSampler(candidates, seed)
        case "tpe":
            from tuner.search.tpe import TpeSampler

            return TpeSampler(candidates, seed)
        case "anneal":
            from tuner.search.anneal import AnnealSampler

            return AnnealSampler(candidates, seed)
        case "surrogate":
            from tuner.search.screen import ALL
            from tuner.search.surrogate import HURRIED, SurrogateSampler

            return SurrogateSampler(candidates, seed, HURRIED if hurried and len(candidates) > ALL else None)
    raise UsageError(f"sampler '{name}' is unknown; {alternatives(name, SAMPLERS)}")
