"""The candidates that the model scores: all of a small space, a few thousand promising ones of a large space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tuner.search.arrays import Flags, Floats, Indices, Rows
from tuner.search.candidates import ABSENT, Candidates
from tuner.search.observations import Observations
from tuner.search.samplers.transfer import TransferPrior

ALL = 20_000  # candidates up to which every one is scored
INCUMBENTS = 10  # fastest configurations whose neighbours are scored
RENEW = 10  # results, or a tenth of all results, between two pools
MOST_REGRESSED = 2_000  # latest results that the main effects are fitted to


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Some candidates: their numbers, and their codes for look-ups."""

    rows: Indices
    codes: Rows

    @classmethod
    def of(cls, candidates: Candidates, rows: Indices) -> Pool:
        return cls(rows, candidates.codes_of(rows))


class CandidatePool:
    """Chooses the candidates to score, and renews the choice as results come in.

    Up to ``ALL`` candidates are scored every time. Beyond that, the pool holds the Hamming neighbours of the fastest
    ``INCUMBENTS``, the best of a main-effects model that is linear in the choices and so scores a million rows in
    milliseconds, and as many random ones.

    Args:
        size: Number of promising rows of a large space, and of random ones.
        source: A source study whose fastest configurations are always scored.
    """

    def __init__(
        self, candidates: Candidates, size: int, random: np.random.Generator, source: TransferPrior | None
    ) -> None:
        self._candidates, self._size, self._random, self._source = candidates, size, random, source
        self._renewed = -RENEW
        self.pool = Pool(rows=np.zeros(0, dtype=np.int64), codes=np.zeros((0, 0), dtype=np.uint8))

    def is_exhausted(self, taken: Flags) -> bool:
        """Whether every row of the pool is taken."""
        return bool(taken[self.pool.rows].all())

    def renew(self, observations: Observations, taken: Flags) -> Pool:
        """Return the pool to score now: the same object as long as nothing changed."""
        count = len(observations)
        if len(self._candidates) <= ALL:
            if not len(self.pool.rows):
                self.pool = Pool.of(self._candidates, np.arange(len(self._candidates)))
        elif self.is_exhausted(taken) or count - self._renewed >= max(RENEW, count // RENEW):
            self._renewed = count
            self.pool = Pool.of(self._candidates, self._choose(observations, taken))
        return self.pool

    def _choose(self, observations: Observations, taken: Flags) -> Indices:
        fastest = observations.rows[observations.by_value[:INCUMBENTS]]
        near = [self._candidates.neighbours(row) for row in fastest.tolist()]
        drawn = self._random.integers(0, len(self._candidates), self._size)
        given = [self._source.promising()] if self._source else []
        rows = np.unique(np.concatenate([*near, drawn, self._promising(observations, taken), *given]))
        rows = rows[~taken[rows]]
        return rows if len(rows) else np.flatnonzero(~taken)[: self._size]

    def _promising(self, observations: Observations, taken: Flags) -> Indices:
        """Return the best rows by a ridge regression of the logarithm of time on single choices."""
        candidates = self._candidates
        rows, values = observations.rows[-MOST_REGRESSED:], observations.values[-MOST_REGRESSED:]
        scores = np.zeros(len(candidates), dtype=np.float32)
        for column, table in enumerate(_main_effects(candidates.codes_of(rows)[:, : len(candidates.axes) + 1], values)):
            effects: npt.NDArray[np.float32] = np.zeros(ABSENT + 1, dtype=np.float32)
            effects[: len(table)] = table
            templates = column == candidates.choices.shape[1]
            if not templates and len(table) > len(candidates.axes[column].choices):
                effects[ABSENT] = table[-1]
            scores += effects[candidates.groups if templates else candidates.choices[:, column]]
        scores[taken] = np.inf
        return np.argpartition(scores, self._size)[: self._size].astype(np.int64)


def _main_effects(codes: Rows, values: Floats) -> list[Floats]:
    """Return one effect per choice for each column of ``codes``."""
    sizes = codes.max(axis=0).astype(int) + 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    design: Floats = np.zeros((len(codes), offsets[-1]))
    for column, offset in enumerate(offsets[:-1]):
        design[np.arange(len(codes)), offset + codes[:, column]] = 1
    inner = design.T @ design + np.eye(design.shape[1])
    return np.split(np.linalg.solve(inner, design.T @ (values - values.mean())), offsets[1:-1])
