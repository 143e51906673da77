"""A sampler that begins where another search ended, and trusts it only as long as it is right.

The donor's fastest results are tried first, with a random trial between them to hold them against. From then on the
surrogate knows the donor's guess of every time and weighs it by its evidence; see :mod:`tuner.search.guide`. Beside
another sampler such a surrogate makes the donor's share of the proposals.
"""

from __future__ import annotations

import numpy as np

from tuner.search.candidates import ABSENT, Candidates, Rows
from tuner.search.guide import Guide
from tuner.search.model import Known
from tuner.search.samplers import PoolSampler, Sampler, make_sampler
from tuner.search.surrogate import SurrogateSampler

FEWEST = 10  # results a donor needs


class WarmSampler:
    """Serves proposals of ``inner``, and of a guided surrogate as often as its donor is probably of use."""

    def __init__(self, inner: PoolSampler, guided: SurrogateSampler, guide: Guide) -> None:
        self.inner, self._guided, self._guide = inner, guided, guide

    @property
    def left(self) -> int:
        return self.inner.left

    def propose(self, count: int) -> list[int]:
        rows: list[int] = []
        while len(rows) < count and self.inner.left:
            leads = self._guided.random.random() < self._guide.weight
            ours, other = (self._guided, self.inner) if leads else (self.inner, self._guided)
            (row,) = ours.propose(1)
            other.take(row)
            other.pending[row] = None
            rows.append(row)
        return rows

    def observe(self, index: int, seconds: float | None, *, noise: float = 0.0, pruned: bool = False) -> None:
        for sampler in (self.inner, self._guided):
            sampler.observe(index, seconds, noise=noise, pruned=pruned)

    def skip(self, index: int) -> None:
        for sampler in (self.inner, self._guided):
            sampler.skip(index)

    def has_some(self, hurry: bool = False) -> bool:
        return True

    def close(self) -> None:
        return


def begun(name: str, candidates: Candidates, seed: int, donor: Known | None) -> Sampler:
    """Return a sampler for a run, where trials take milliseconds, with a donor's results if there is one."""
    sampler = make_sampler(name, candidates, seed, hurried=True)
    return warmed(sampler, donor, seed) if donor else sampler


def warmed(inner: Sampler, donor: Known, seed: int) -> Sampler:
    """Return ``inner``, to which nothing was said yet, with a donor's results to begin with."""
    assert isinstance(inner, PoolSampler)  # as all our samplers are
    guide = Guide(inner.candidates, donor)
    settings = inner.settings if isinstance(inner, SurrogateSampler) else None
    guided = SurrogateSampler(inner.candidates, seed, settings, guide)
    return guided if isinstance(inner, SurrogateSampler) else WarmSampler(inner, guided, guide)


def transfer(donor: Candidates, known: Known, target: Candidates) -> Known:
    """Return a donor's results by the rows of another space; what has no equal there is left out.

    A parameter of the same name and value is the same; one that only one of them has must have a single choice.
    """
    columns = {axis.name: column for column, axis in enumerate(donor.axes)}
    names = {name: group for group, name in enumerate(target.names)}
    found: dict[int, int] = {}
    unknown = {axis.name for axis in donor.axes if len(axis.choices) > 1} - {axis.name for axis in target.axes}
    for place, row in enumerate([] if unknown else known.rows.tolist()):
        group = names.get(donor.names[donor.groups[row]], 0 if len(names) == 1 else None)
        choices = _translated(donor, row, columns, target)
        index = None if group is None or choices is None else target.find(choices, group)
        if index is not None:
            found.setdefault(index, place)
    places = np.array(list(found.values()), dtype=np.int64)
    return Known(
        rows=np.array(list(found), dtype=np.int64), values=known.values[places], variances=known.variances[places]
    )


def _translated(donor: Candidates, row: int, columns: dict[str, int], target: Candidates) -> Rows | None:
    choices: Rows = np.full(len(target.axes), ABSENT, dtype=np.uint8)
    for column, axis in enumerate(target.axes):
        if axis.name not in columns:
            if len(axis.choices) > 1:
                return None
            choices[column] = 0
            continue
        there = donor.choices[row, columns[axis.name]]
        if there == ABSENT:
            continue
        value = donor.axes[columns[axis.name]].choices[there]
        if value not in axis.choices:
            return None
        choices[column] = axis.choices.index(value)
    return choices
