"""The contract of all samplers, and the base of those that choose from a finite pool.

A sampler chooses among the rows of a :class:`Candidates` table, so that it can only ever name a valid configuration.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tuner.search.arrays import Flags, Indices
from tuner.search.candidates import Candidates


class Sampler(Protocol):
    """Proposes row numbers, and learns from their results.

    Every number is a valid configuration, is proposed at most once, and never after it was observed or skipped.
    Equal seeds and equal calls give equal proposals. Results may come in any order, and for rows never proposed.
    """

    def propose(self, count: int) -> list[int]:
        """Return up to ``count`` rows not seen before: fewer when fewer are left, none when the space is exhausted."""

    def observe(self, index: int, seconds: float | None, *, noise: float = 0.0, pruned: bool = False) -> None:
        """Learn what one row took; the last of several results for a row counts.

        Args:
            seconds: None when it failed, which is evidence against its neighbourhood.
            noise: Relative standard error of ``seconds``: 0.01 is 1%.
            pruned: ``seconds`` is only a lower bound, since timing stopped early.
        """

    def skip(self, index: int) -> None:
        """Never propose this row, and expect no result: another process has it."""

    def has_some(self, hurry: bool = False) -> bool:
        """Whether :meth:`propose` would answer at once; with ``hurry``, a caller is waiting for it."""

    def close(self) -> None:
        """End the processes that work for this sampler."""


class PoolSampler:
    """Samples a finite pool without replacement: tracks which rows are taken, and which of these have no result yet.

    Source:
        Settles, "Active Learning Literature Survey", 2009 (pool-based sampling).
    """

    def __init__(self, candidates: Candidates, seed: int) -> None:
        self.candidates = candidates
        self.random = np.random.default_rng(seed)
        self.taken: Flags = np.zeros(len(candidates), dtype=bool)
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
        """Return one row that is not taken; called only if there is one."""
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
        """Mark a row as taken: it will never be proposed.

        Raises:
            IndexError: There is no such row.
        """
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
        """Return the rows that are not taken."""
        return np.flatnonzero(~self.taken)
