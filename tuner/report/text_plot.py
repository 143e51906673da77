"""Plots for a terminal: marks in a frame of characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Cells with the same mark.

    Attributes:
        columns: Of each cell, from the left.
        rows: Of each cell, from below; what lies beyond the frame is not drawn.
    """

    mark: str
    columns: Cells
    rows: Cells

    def cells(self) -> Iterable[tuple[int, int]]:
        return zip(self.columns.tolist(), self.rows.tolist(), strict=True)


def text_plot(marks: Sequence[Marks], width: int, labels: Sequence[str]) -> list[str]:
    """Return the lines of a plot, axes included.

    Args:
        marks: Later ones cover earlier ones.
        width: Columns of the frame.
        labels: One for each row, from the top, all of the same width.
    """
    grid = [[" "] * width for _ in labels]
    for each in marks:
        for column, row in each.cells():
            if 0 <= column < width and 0 <= row < len(labels):
                grid[row][column] = each.mark
    lines = [f"{label} |{''.join(row)}".rstrip() for label, row in zip(labels, grid[::-1], strict=True)]
    return [*lines, f"{'':{len(labels[0])}} +{'-' * width}"]
