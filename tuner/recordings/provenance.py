"""Find which built-in templates a recording is of, which its columns alone do not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile

import numpy as np

from tuner.kernels.loading import every_template
from tuner.kernels.template import KernelTemplate
from tuner.problems.lookup import described_problem
from tuner.problems.problem import Problem
from tuner.search.arrays import Floats, Rows
from tuner.search.candidates import ABSENT, Axis, Candidates, Choice
from tuner.search.derived_features import Figures, logarithms

COMMENT = "# layer: "  # for every kind of problem


def problem_of_text(text: str) -> Problem | None:
    """Return the problem that a recording's comments name, or None."""
    comments = takewhile(lambda line: line.startswith("#"), text.splitlines())
    name, _, sizes = (
        next((line for line in comments if line.startswith(COMMENT)), "").removeprefix(COMMENT).partition(": ")
    )
    return described_problem(name, sizes)


def with_origins(recorded: Candidates, problem: Problem | None) -> Candidates:
    """Return recorded candidates completed by the built-in templates they are of, with figures for a problem.

    A parameter that the recording lacks takes its first choice: the template did not have it yet. One that the template
    no longer has must have a single choice. A template of the same name with other parameters or choices is not a
    built-in one, nor is one of the user's own.
    """
    firsts, figures = dict[str, dict[str, Choice]](), list[dict[str, Floats]]()
    for group, name in enumerate(recorded.names):
        template = _ours().get(name)
        rows = _rows_of(template, recorded.axes, recorded.choices[recorded.groups == group]) if template else None
        figures.append({})
        if template is not None and rows is not None:
            firsts[name] = dict(template.first_choices)
            figures[-1] = logarithms(template, problem, rows) if problem else {}
    return replace(recorded, firsts=firsts, figures=Figures.joined(recorded.groups, figures))


@cache
def _ours() -> dict[str, KernelTemplate]:
    return every_template()


def _rows_of(template: KernelTemplate, axes: Sequence[Axis], choices: Rows) -> Rows | None:
    rows: Rows = np.zeros((len(choices), len(template.parameters)), dtype=np.uint8)
    columns = {parameter.name: column for column, parameter in enumerate(template.parameters)}
    for axis, chosen in zip(axes, choices.T, strict=True):
        given = np.unique(chosen[chosen != ABSENT])
        if axis.name not in columns:
            if len(given) > 1:
                return None
            continue
        offered = [str(choice) for choice in template.parameters[columns[axis.name]].choices]
        recorded = [str(axis.choices[index]) for index in given.tolist()]
        if not set(recorded) <= set(offered):
            return None
        table: Rows = np.zeros(ABSENT + 1, dtype=np.uint8)
        table[given] = [offered.index(choice) for choice in recorded]
        rows[:, columns[axis.name]] = table[chosen]
    return rows
