"""Translate results from one space to the rows of another, for configurations that both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuner.search.arrays import Rows
from tuner.search.candidates import ABSENT, Axis, Candidates, Choice
from tuner.search.observations import Observations

MIN_SHARED = 10  # results of a source that a search must have in common with it


def translate(source: Candidates, observations: Observations, target: Candidates) -> Observations:
    """Return a source's results by the rows of another space; configurations that are not there are left out.

    Parameters match by name and value. One that only the target has takes its template's first choice, or must have a
    single choice if the template is unknown; one that only the source has must have a single choice.
    """
    names = {name: group for group, name in enumerate(target.names)}
    free = {axis.name for axis in source.axes if len(axis.choices) > 1} - {axis.name for axis in target.axes}
    lacking = [_lacking(source, target, name) for name in target.names]
    found: dict[int, int] = {}
    for place, row in enumerate(observations.rows.tolist()):
        group = names.get(source.names[source.groups[row]], 0 if len(names) == 1 else None)
        given = _given(source, row)
        if group is None or free & given.keys():
            continue
        choices = _translated(given, target.axes, lacking[group])
        index = None if choices is None else target.find(choices, group)
        if index is not None:
            found.setdefault(index, place)
    return replace(observations.at(list(found.values())), rows=np.array(list(found), dtype=np.int64))


def _given(source: Candidates, row: int) -> dict[str, Choice]:
    pairs = zip(source.axes, source.choices[row].tolist(), strict=True)
    return {axis.name: axis.choices[choice] for axis, choice in pairs if choice != ABSENT}


def _lacking(source: Candidates, target: Candidates, template: str) -> list[int | None]:
    """Return for each axis the choice of a configuration that lacks it: it may be ``ABSENT``, or None for unknown."""
    firsts, known = target.firsts.get(template), {axis.name for axis in source.axes}
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
    """Return the choice for a value; recordings hold numbers as words if another template has words there."""
    texts = [str(choice) for choice in axis.choices]
    if value in axis.choices:
        return axis.choices.index(value)
    return texts.index(str(value)) if str(value) in texts else None
