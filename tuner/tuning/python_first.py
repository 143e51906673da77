"""A user's own Python tried before anything is compiled or stored: what fails always is the template's fault."""

from __future__ import annotations

import numpy as np

from tuner.errors import Infeasible, UsageError
from tuner.search.figures import without_figure
from tuner.space import TemplateSpace

TRIED = 64  # configurations, spread over the space


def try_python(part: TemplateSpace) -> list[str]:
    """Call a template's launch and figures; return what to tell the user.

    Raises:
        UsageError: The figures fail, or ``launch`` does for every configuration tried; names the template's line.
    """
    failures = []
    rows = np.unique(np.linspace(0, len(part) - 1, TRIED).astype(int))
    for row in rows.tolist():
        try:
            part.template.launch_of(part.configuration(row), part.layer)
        except Infeasible as error:
            failures.append(str(error))
    if len(failures) == len(rows):
        raise UsageError(f"template {part.template.name}: {failures[0]}")
    return without_figure(part.template, part.layer, part.rows)
