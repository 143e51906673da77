"""Which candidates the model scores: all of a small space, a few thousand promising ones of a large space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tuner.search.candidates import ABSENT, Floats, Indices, Rows

if TYPE_CHECKING:
    from tuner.search.surrogate import SurrogateSampler

ALL = 20_000
INCUMBENTS = 10
RENEW = 10  # results, or a tenth of those there are


class Screen:
    """The rows scored, renewed as results come in.

    Up to ``ALL`` candidates are scored every time. Of more, the pool is the Hamming neighbours of the fastest
    ``INCUMBENTS``, the best of a main-effects model that is linear in the choices and so scores a million rows in
    milliseconds, and as many random ones; renewed as results come in.
    """

    def __init__(self, sampler: SurrogateSampler) -> None:
        self._sampler = sampler
        self.rows: Indices = np.zeros(0, dtype=np.int64)
        self.codes: Rows = np.zeros((0, 0), dtype=np.uint8)
        self._renewed = -RENEW

    @property
    def exhausted(self) -> bool:
        return bool(self._sampler.taken[self.rows].all())

    def renew(self) -> None:
        candidates, count = self._sampler.candidates, len(self._sampler.seen)
        if len(candidates) <= ALL:
            if not len(self.rows):
                self.rows = np.arange(len(candidates))
                self.codes = candidates.codes_of(self.rows)
        elif self.exhausted or count - self._renewed >= max(RENEW, count // RENEW):
            self._renewed = count
            self.rows = self._pool()
            self.codes = candidates.codes_of(self.rows)

    def _pool(self) -> Indices:
        sampler = self._sampler
        fastest = sorted(sampler.seen, key=lambda row: sampler.seen[row].value)[:INCUMBENTS]
        near = [sampler.candidates.neighbours(row) for row in fastest]
        drawn = sampler.random.integers(0, len(sampler.candidates), sampler.settings.pool)
        given = [sampler.guide.promising()] if sampler.guide else []
        rows = np.unique(np.concatenate([*near, drawn, self._promising(), *given]))
        rows = rows[~sampler.taken[rows]]
        return rows if len(rows) else sampler.unseen()[: sampler.settings.pool]

    def _promising(self) -> Indices:
        """Return the best rows by a ridge regression of the logarithm of time on single choices."""
        candidates, seen = self._sampler.candidates, self._sampler.seen
        rows = np.array(list(seen)[-2_000:], dtype=np.int64)
        values = np.array([seen[row].value for row in rows.tolist()])
        scores = np.zeros(len(candidates), dtype=np.float32)
        for column, table in enumerate(_main_effects(candidates.codes_of(rows)[:, : len(candidates.axes) + 1], values)):
            effects: npt.NDArray[np.float32] = np.zeros(ABSENT + 1, dtype=np.float32)
            effects[: len(table)] = table
            templates = column == candidates.choices.shape[1]
            if not templates and len(table) > len(candidates.axes[column].choices):
                effects[ABSENT] = table[-1]
            scores += effects[candidates.groups if templates else candidates.choices[:, column]]
        scores[self._sampler.taken] = np.inf
        best = self._sampler.settings.pool
        return np.argpartition(scores, best)[:best].astype(np.int64)


def _main_effects(codes: Rows, values: Floats) -> list[Floats]:
    """Return one effect per choice for each column of ``codes``."""
    sizes = codes.max(axis=0).astype(int) + 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    design: Floats = np.zeros((len(codes), offsets[-1]))
    for column, offset in enumerate(offsets[:-1]):
        design[np.arange(len(codes)), offset + codes[:, column]] = 1
    inner = design.T @ design + np.eye(design.shape[1])
    return np.split(np.linalg.solve(inner, design.T @ (values - values.mean())), offsets[1:-1])
