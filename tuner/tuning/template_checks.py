"""Check templates before anything is compiled or stored: what always fails is the template's fault."""

from __future__ import annotations

import numpy as np

from tuner.errors import Infeasible, UsageError
from tuner.kernels.limits import CUDA, OPENCL
from tuner.kernels.loading import builtin_names
from tuner.kernels.space import Space, TemplateSpace
from tuner.kernels.template import KernelTemplate
from tuner.kernels.text import check_source
from tuner.search.derived_features import without_figure
from tuner.tuning.options import RunOptions

MOST_WITHOUT_HEURISTICS = 2_000_000  # configurations that a search can hold and rank
TRIED = 64  # configurations tried, spread over the space


def suited(options: RunOptions) -> tuple[KernelTemplate, ...]:
    """Return the templates that can index the problem, after checking the sources of the user's own.

    Raises:
        UsageError: A source cannot work on the device, or no template's indices are wide enough.
    """
    dialect = CUDA if options.device.startswith("cuda") else OPENCL
    for template in options.templates:
        if template.home and dialect in template.dialects:
            check_source(template, dialect)
    problem = options.problem
    if problem.most_rows >= problem.rows:
        return options.templates
    wide = tuple(template for template in options.templates if template.wide_indices)
    if not wide:
        larger, size = max(((each.name, each.size) for each in problem.tensors if each.rows), key=lambda each: each[1])
        less = f"{problem.ROWS_OPTION} {problem.most_rows} or less" if problem.most_rows else "smaller sizes"
        raise UsageError(
            f"{problem.noun} {problem.name}: {larger} has {size:,} elements, an int counts to 2,147,483,647; "
            f"give {less}, or a template that says wide_indices=True"
        )
    return wide


def check_some_left(space: Space, options: RunOptions) -> list[str]:
    """Return a line for each template with nothing valid here; by default, none for templates in another language.

    Raises:
        UsageError: None has.
    """
    if not len(space):
        reasons = "; ".join(f"{name}: {why}" for name, why in space.left_out)
        raise UsageError(
            f"{options.problem.noun} {options.problem.name}: no valid configuration on {options.device} "
            f"({reasons}); give another --template or --device"
        )
    every = {template.name for template in options.templates} == set(builtin_names(options.problem.kind))
    here = space.parts[0].limits.dialect
    foreign = {template.name for template in options.templates if here not in template.dialects} if every else set()
    return [
        f"template {name} is left out, since none of its configurations is valid here: {why}"
        for name, why in space.left_out
        if name not in foreign
    ]


def check_not_too_many(searched: Space, options: RunOptions) -> None:
    """Refuse a search larger than memory holds, which is possible only without heuristics.

    Raises:
        UsageError: Says how to narrow it.
    """
    if not options.heuristics and len(searched) > MOST_WITHOUT_HEURISTICS:
        raise UsageError(
            f"--no-heuristics: {len(searched):,} configurations to search, at most {MOST_WITHOUT_HEURISTICS:,} are "
            "supported; narrow them with --only NAME=CHOICE,CHOICE or one --template"
        )


def left_out_by_heuristics(space: Space) -> list[str]:
    """Return a line that counts what heuristics left out, if anything."""
    names = {part.template.name: part.left_out for part in space.parts if part.left_out}
    told = ", ".join(f"{name} {count:,}" for name, count in names.items())
    return [f"heuristics leave out what would run ({told}); see tune templates"] if names else []


def try_python(part: TemplateSpace) -> list[str]:
    """Call a template's launch, sizes and figures; return lines to show the user.

    Raises:
        UsageError: The figures fail, or ``launch`` or ``sizes`` does for every configuration tried; names the line.
    """
    failures = []
    rows = np.unique(np.linspace(0, len(part) - 1, TRIED).astype(int))
    for row in rows.tolist():
        try:
            part.template.launch_of(part.configuration(row), part.problem)
            part.template.sizes_of(part.configuration(row), part.problem)
        except Infeasible as error:
            failures.append(str(error))
    if len(failures) == len(rows):
        raise UsageError(f"template {part.template.name}: {failures[0]}")
    return without_figure(part.template, part.problem, part.rows)
