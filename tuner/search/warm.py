"""A sampler that begins where another search ended, and trusts it only as long as it is right.

The donor's fastest results are tried first, with a random trial between them to hold them against. From then on the
surrogate knows the donor's guess of every time and weighs it by its evidence; see :mod:`tuner.search.guide`. Beside
another sampler such a surrogate makes the donor's share of the proposals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.search.candidates import ABSENT, Axis, Candidates, Choice, Rows
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

    A parameter of the same name and value is the same. One that only the target has takes its template's first choice,
    or must have a single choice where the template is not known; one that only the donor has must have a single choice.
    """
    names = {name: group for group, name in enumerate(target.names)}
    free = {axis.name for axis in donor.axes if len(axis.choices) > 1} - {axis.name for axis in target.axes}
    lacking = [_lacking(donor, target, name) for name in target.names]
    found: dict[int, int] = {}
    for place, row in enumerate(known.rows.tolist()):
        group = names.get(donor.names[donor.groups[row]], 0 if len(names) == 1 else None)
        given = _given(donor, row)
        if group is None or free & given.keys():
            continue
        choices = _translated(given, target.axes, lacking[group])
        index = None if choices is None else target.find(choices, group)
        if index is not None:
            found.setdefault(index, place)
    places = np.array(list(found.values()), dtype=np.int64)
    return Known(
        rows=np.array(list(found), dtype=np.int64), values=known.values[places], variances=known.variances[places]
    )


def _given(donor: Candidates, row: int) -> dict[str, Choice]:
    pairs = zip(donor.axes, donor.choices[row].tolist(), strict=True)
    return {axis.name: axis.choices[choice] for axis, choice in pairs if choice != ABSENT}


def _lacking(donor: Candidates, target: Candidates, template: str) -> list[int | None]:
    """Return for each axis which choice a configuration has that lacks it: perhaps ``ABSENT``, or None for unknown."""
    firsts, known = target.firsts.get(template), {axis.name for axis in donor.axes}
    if firsts is not None:
        return [_place(axis, firsts[axis.name]) if axis.name in firsts else ABSENT for axis in target.axes]
    return [ABSENT if axis.name in known else 0 if len(axis.choices) == 1 else None for axis in target.axes]


def _translated(given: dict[str, Choice], axes: Sequence[Axis], lacking: Sequence[int | None]) -> Rows | None:
    choices: Rows = np.full(len(axes), ABSENT, dtype=np.uint8)
    for column, (axis, without) in enumerate(zip(axes, lacking, strict=True)):
        place = _place(axis, given[axis.name]) if axis.name in given else without
        if place is None:
            return None
        choices[column] = place
    return choices


def _place(axis: Axis, value: Choice) -> int | None:
    """Return which choice a value is; recordings hold numbers as words where another template has words there."""
    texts = [str(choice) for choice in axis.choices]
    if value in axis.choices:
        return axis.choices.index(value)
    return texts.index(str(value)) if str(value) in texts else None
