"""The points a sampler chooses among: choice indices, numeric features and neighbours of every valid configuration.

Several templates form one joint table. Parameters of the same name share their column; a parameter that a template
does not have is ``ABSENT`` there, has a neutral value among the features, and the template itself is a feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from tuner.errors import UsageError
from tuner.kernels.space import Space
from tuner.search.arrays import Floats, Indices, Rows
from tuner.search.derived_features import LEVELS, Figures, logarithms
from tuner.search.features import Feature, encode, is_word, number_kinds, pairwise, volumes

Choice = int | float | str
ABSENT: Final = 255


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter over all templates: its name and the choices that any of them offers."""

    name: str
    choices: tuple[Choice, ...]

    def __post_init__(self) -> None:
        if len(self.choices) >= ABSENT:
            raise UsageError(f"parameter {self.name}: {len(self.choices)} choices; at most {ABSENT - 1} are supported")


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """All valid configurations as arrays; a point is its row number.

    Attributes:
        axes: The parameters, one per column of ``choices``.
        choices: Shape (n, p): index into each axis' choices, or ``ABSENT``.
        groups: Shape (n,): which template each row belongs to, a position in ``names``.
        names: The templates' names.
        firsts: The first choice by template and parameter, which is assumed for a parameter that older results lack;
            templates of which only results are known are missing.
        figures: Sizes that templates derive from their parameters; none where they are unknown.
    """

    axes: tuple[Axis, ...]
    choices: Rows
    groups: npt.NDArray[np.uint8]
    names: tuple[str, ...]
    firsts: Mapping[str, Mapping[str, Choice]] = field(default_factory=dict)
    figures: Figures | None = None

    @classmethod
    def of(cls, space: Space) -> Candidates:
        """Join the templates of an enumerated space; row numbers are the space's global indices."""
        merged: dict[str, list[Choice]] = {}
        for part in space.parts:
            for parameter in part.template.parameters:
                known = merged.setdefault(parameter.name, [])
                known += [choice for choice in parameter.choices if choice not in known]
        axes = tuple(Axis(name, tuple(choices)) for name, choices in merged.items())
        position = {axis.name: column for column, axis in enumerate(axes)}
        choices: Rows = np.full((len(space), len(axes)), ABSENT, dtype=np.uint8)
        start = 0
        for part in space.parts:
            for column, parameter in enumerate(part.template.parameters):
                axis = axes[position[parameter.name]]
                table = np.array([axis.choices.index(choice) for choice in parameter.choices], dtype=np.uint8)
                choices[start : start + len(part), position[axis.name]] = table[part.rows[:, column]]
            start += len(part)
        sizes = [len(part) for part in space.parts]
        groups = np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)
        templates = [part.template for part in space.parts]
        return cls(
            axes=axes,
            choices=choices,
            groups=groups,
            names=tuple(template.name for template in templates),
            firsts={template.name: template.first_choices for template in templates},
            figures=Figures.joined(
                groups, [logarithms(part.template, space.problem, part.rows) for part in space.parts]
            ),
        )

    def __len__(self) -> int:
        return len(self.choices)

    @cached_property
    def features(self) -> Floats:
        """Features of every row, each in [0, 1]; see :meth:`features_of` for a few rows of many."""
        return self.features_of(np.arange(len(self)))

    def features_of(self, rows: Indices | Sequence[int]) -> Floats:
        """Return the features of some rows, shape (len(rows), d).

        Numbers are on a logarithmic scale with their 2-adic valuation beside them, shapes give X and Y, words and
        the template are one-hot.
        """
        rows = np.asarray(rows, dtype=np.int64)
        chosen = self.choices[rows]
        columns = [table[np.minimum(chosen[:, axis], len(table) - 1)] for axis, table in self._tables]
        if len(self.names) > 1:
            columns.append(np.eye(len(self.names))[self.groups[rows]])
        return np.hstack(columns) if columns else np.zeros((len(rows), 0))

    def codes_of(self, rows: Indices | Sequence[int]) -> Rows:
        """Return some rows for table look-ups: a column per parameter, one for the template, the volume, the figures.

        ``ABSENT`` is one past the last choice. The volume is the product of all sizes (numbers and shapes with more
        than two choices, all positive), on a logarithmic scale of ``LEVELS``: threads times work each.
        """
        rows = np.asarray(rows, dtype=np.int64)
        sizes = np.array([len(axis.choices) for axis in self.axes], dtype=np.uint8)
        codes = np.minimum(self.choices[rows], sizes)
        volume = np.zeros(len(rows))
        for column, table in self._volumes:
            volume += table[codes[:, column]]
        top = sum(table.max() for _, table in self._volumes) or 1.0
        levels = np.rint(volume * ((LEVELS - 1) / top)).astype(np.uint8)
        figures = [] if self.figures is None else [self.figures.levels[rows]]
        return np.column_stack([codes, self.groups[rows], levels, *figures])

    @cached_property
    def model_features(self) -> list[Feature]:
        """Features of the codes: a number, its valuation, and whether it is the same number; one for a word.

        With several templates their choice is one; with several sizes so is the volume, and each figure.
        """
        figures = [] if self.figures is None else self.figures.features(len(self.axes) + 2)
        return [*self.plain_features, *figures]

    @cached_property
    def plain_features(self) -> list[Feature]:
        """The same without the figures."""
        features = []
        for axis, table in self._tables:
            if is_word(self.axes[axis].choices):
                features.append(Feature(axis, pairwise(table), "word"))
                continue
            if len(table) <= 3:  # two choices, and the neutral row
                features += [Feature(axis, pairwise(part), "flag") for part in np.hsplit(table, table.shape[1])]
                continue
            kinds = number_kinds(self.axes[axis].choices)
            parts = np.hsplit(table, table.shape[1])
            features += [Feature(axis, pairwise(part), kind) for part, kind in zip(parts, kinds, strict=True)]
            features.append(Feature(axis, 1 - np.eye(len(table)), "exact"))
        if len(self.names) > 1:
            features.append(Feature(len(self.axes), pairwise(np.eye(len(self.names))), "word"))
        if len(self._volumes) > 1:
            features.append(Feature(len(self.axes) + 1, pairwise(np.linspace(0, 1, LEVELS)[:, None]), "volume"))
        return features

    @cached_property
    def _tables(self) -> list[tuple[int, Floats]]:
        """Features by choice for each axis that varies, with a neutral last row for ``ABSENT``."""
        encoded = [(column, encode(axis.choices)) for column, axis in enumerate(self.axes) if len(axis.choices) > 1]
        return [(column, np.vstack([table, table.mean(axis=0)])) for column, table in encoded]

    @cached_property
    def _volumes(self) -> list[tuple[int, Floats]]:
        """For each parameter that is a size: its logarithm by choice, from 0; 0 for ``ABSENT``."""
        sizes = [(column, volumes(axis.choices)) for column, axis in enumerate(self.axes) if len(axis.choices) > 2]
        return [(column, np.append(table - table.min(), 0.0)) for column, table in sizes if table is not None]

    @cached_property
    def _zobrist(self) -> npt.NDArray[np.uint64]:
        random = np.random.default_rng(0)
        return random.integers(0, 2**64, size=(len(self.axes) + 1, ABSENT + 1), dtype=np.uint64)

    @cached_property
    def _lookup(self) -> tuple[npt.NDArray[np.uint64], Indices]:
        codes = self._codes(self.choices, self.groups)
        order = np.argsort(codes, kind="stable").astype(np.int64)
        return codes[order], order

    def _codes(self, rows: Rows, groups: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
        """Hash rows: a sum of one random number per choice, so that a neighbour's hash is one sum away."""
        codes: npt.NDArray[np.uint64] = self._zobrist[-1][groups]
        for column in range(rows.shape[1]):
            codes += self._zobrist[column, rows[:, column]]
        return codes

    def find(self, row: Rows, group: int = 0) -> int | None:
        """Return the number of a row of choices of one template, or None when it is not a candidate."""
        found = int(self._find_codes(self._codes(row[None], np.array([group], dtype=np.uint8)))[0])
        return found if found >= 0 else None

    def _find_codes(self, codes: npt.NDArray[np.uint64]) -> Indices:
        known, order = self._lookup
        position = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(known[position] == codes, order[position], -1)

    def neighbours(self, row: int) -> Indices:
        """Return the valid rows that differ from ``row`` in exactly one parameter, in the order of the axes."""
        here = self.choices[row]
        code = self._codes(
            here[None], self.groups[row : row + 1]
        )  # an array: unsigned arithmetic on those wraps silently
        found = []
        for column, axis in enumerate(self.axes):
            if here[column] != ABSENT and len(axis.choices) > 1:
                table = self._zobrist[column]
                others = np.delete(table[: len(axis.choices)], here[column])
                found.append(code - table[here[column : column + 1]] + others)
        if not found:
            return np.zeros(0, dtype=np.int64)
        rows = self._find_codes(np.concatenate(found))
        return rows[rows >= 0]

    def nearest(self, row: Rows, among: Indices) -> int:
        """Return the row of ``among`` with the fewest differing parameters, the earliest of equals."""
        return int(among[np.argmin(np.count_nonzero(self.choices[among] != row, axis=1))])
