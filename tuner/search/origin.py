"""Which of our own templates a recording is of: what its columns alone do not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from tuner.loading import builtin_templates
from tuner.search.candidates import ABSENT, Axis, Choice, Rows
from tuner.templates import KernelTemplate

FirstChoices = Mapping[str, Mapping[str, Choice]]


@cache
def _ours() -> dict[str, KernelTemplate]:
    return builtin_templates()


def origins(
    axes: Sequence[Axis], names: Sequence[str], choices: Rows, groups: Rows
) -> dict[str, tuple[KernelTemplate, Rows]]:
    """Return the built-in templates among a recording's, each with the recorded rows as its choices.

    A parameter that the recording lacks takes its first choice: the template did not have it yet. A template of the
    same name with other parameters or choices is left out, and so is one of the user's own.

    Shapes:
        ``choices``: (n, axes), ``groups``: (n,); each result: (rows of that template, its parameters).
    """
    found = {}
    for group, name in enumerate(names):
        template = _ours().get(name)
        rows = _rows_of(template, axes, choices[groups == group]) if template else None
        if template and rows is not None:
            found[name] = template, rows
    return found


def _rows_of(template: KernelTemplate, axes: Sequence[Axis], choices: Rows) -> Rows | None:
    rows: Rows = np.zeros((len(choices), len(template.parameters)), dtype=np.uint8)
    columns = {parameter.name: column for column, parameter in enumerate(template.parameters)}
    for axis, chosen in zip(axes, choices.T, strict=True):
        given = np.unique(chosen[chosen != ABSENT])
        if not len(given):
            continue
        if axis.name not in columns:
            return None
        offered = [str(choice) for choice in template.parameters[columns[axis.name]].choices]
        recorded = [str(axis.choices[index]) for index in given.tolist()]
        if not set(recorded) <= set(offered):
            return None
        table: Rows = np.zeros(ABSENT + 1, dtype=np.uint8)
        table[given] = [offered.index(choice) for choice in recorded]
        rows[:, columns[axis.name]] = table[chosen]
    return rows
