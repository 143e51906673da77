"""Figures: sizes that templates derive from their configurations, as levels for the surrogate to look up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tuner.errors import UsageError
from tuner.kernels.calling import Broken, called, line_of, shortened
from tuner.kernels.columns import gathered_once
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem
from tuner.search.arrays import Floats, Rows
from tuner.search.features import Feature, pairwise

LEVELS: Final = 100
CHUNK = 1 << 16  # configurations evaluated at a time, to limit memory


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """The figures of every candidate.

    Attributes:
        levels: Shape (n, figures): the figure's logarithm from its least (0) to its largest (``LEVELS - 1``) among all
            candidates; ``LEVELS`` where a template does not have it.
    """

    levels: Rows

    @classmethod
    def none(cls, count: int) -> Figures:
        return cls(np.zeros((count, 0), dtype=np.uint8))

    @classmethod
    def joined(cls, groups: Rows, by_group: Sequence[Mapping[str, Floats]]) -> Figures:
        """Join the figures of several templates; those of the same name are one, and those that never vary are none.

        Args:
            groups: Shape (n,): which template each candidate belongs to.
            by_group: The output of :func:`logarithms` for the candidates of each template, in order.
        """
        columns = []
        for name in dict.fromkeys(name for figures in by_group for name in figures):
            column = np.full(len(groups), np.nan)
            for group, figures in enumerate(by_group):
                if name in figures:
                    column[groups == group] = figures[name]
            least, reach = np.nanmin(column), np.nanmax(column) - np.nanmin(column)
            if reach > 1e-9:
                levels = np.rint((column - least) * ((LEVELS - 1) / reach))
                columns.append(np.where(np.isnan(levels), LEVELS, levels).astype(np.uint8))
        return cls(np.column_stack(columns)) if columns else cls.none(len(groups))

    def features(self, column: int) -> list[Feature]:
        """Return a feature for each figure, with the prior of the volume; a missing figure counts as the middle.

        Args:
            column: The column of the first figure's codes.
        """
        distances = pairwise(np.append(np.linspace(0, 1, LEVELS), 0.5)[:, None])
        return [Feature(column + figure, distances, "volume") for figure in range(self.levels.shape[1])]


def logarithms(template: KernelTemplate, problem: Problem, rows: Rows) -> dict[str, Floats]:
    """Return the logarithm (base 2) of each figure that a template has, shape (n,) each; NaN where it has none.

    Args:
        rows: Shape (n, parameters): choice indices.

    Raises:
        UsageError: The template's figures fail, or one is a positive number for no configuration.
    """
    starts = range(0, len(rows), CHUNK) if template.figures else ()
    parts = [_some(template, problem, rows[start : start + CHUNK]) for start in starts]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def without_figure(template: KernelTemplate, problem: Problem, rows: Rows) -> list[str]:
    """Return a line for each figure that some configurations lack: they are searched without it."""
    lacking = {name: np.count_nonzero(np.isnan(each)) for name, each in logarithms(template, problem, rows).items()}
    return [
        f"template {template.name}: figure '{name}' is not a positive number for {count:,} of {len(rows):,} "
        "configurations; for those the search does without it"
        for name, count in lacking.items()
        if count
    ]


def _some(template: KernelTemplate, problem: Problem, rows: Rows) -> dict[str, Floats]:
    assert template.figures is not None
    columns = gathered_once(rows, template.parameters)
    with np.errstate(divide="ignore", invalid="ignore"):
        try:
            figures = called(template.home, template.figures, columns, problem)
        except Broken as error:
            raise UsageError(f"template {template.name}: its figures fail; {error}") from None
        if not isinstance(figures, Mapping):
            raise UsageError(
                f"template {template.name}: {line_of(template.figures)}: its figures are {shortened(figures)}; "
                'return a dictionary such as {"waste": p.THREADS / problem.output.size}'
            )
        return {name: _logarithm(template, name, each, len(rows)) for name, each in figures.items()}


def _logarithm(template: KernelTemplate, name: str, figure: Any, count: int) -> Floats:
    try:
        column = np.broadcast_to(np.asarray(figure, dtype=float), count)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"template {template.name}: its figures fail; {type(error).__name__}: '{name}' is {shortened(figure)}"
        ) from None
    good = np.isfinite(column) & (column > 0)
    if count and not good.any():
        raise UsageError(f"template {template.name}: figure '{name}' is {column[0]:g}; give positive numbers alone")
    return np.log2(np.where(good, column, np.nan))
