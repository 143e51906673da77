"""Parameter columns of many configurations at once, and a template's constraints applied to them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.errors import UsageError
from tuner.kernels.calling import Broken, called, line_of, shortened
from tuner.kernels.limits import DeviceLimits
from tuner.kernels.parameters import Parameter
from tuner.kernels.rules import Rule
from tuner.kernels.template import KernelTemplate
from tuner.kernels.values import Values, mapping_of
from tuner.problems.problem import Problem

Indices = npt.NDArray[np.uint8]
COLUMNS_HINT = (
    "; it is asked of all configurations at once: write (a) & (b), (a) | (b), ~(a), (a <= b) & (b < c), np.minimum, "
    "np.maximum, and // for a division"
)


class Columns(Values):
    """Parameter columns gathered on demand from the choice indices of many configurations.

    Attributes:
        missed: Names that were requested but are not there (yet).
    """

    __slots__ = ("_parameters", "_rows", "_tables", "missed")

    def __init__(self, rows: Indices, parameters: Sequence[Parameter]) -> None:
        self._rows, self._parameters = rows, parameters
        self._tables: dict[str, tuple[int, npt.NDArray[np.generic]]] = {}
        self.missed: set[str] = set()
        for column, parameter in enumerate(parameters):
            parts = [parameter.parts(choice) for choice in parameter.choices]
            for name in parts[0]:
                self._tables[name] = column, np.array([part[name] for part in parts])

    def __getattr__(self, name: str) -> npt.NDArray[np.generic]:
        try:
            column, table = self._tables[name]
        except KeyError:
            self.missed.add(name)
            raise AttributeError(name, name=name, obj=self) from None
        return table[self._rows[:, column]]

    def names(self) -> Sequence[str]:
        return list(self._tables)


class _Gathered(dict[str, Any]):
    """Parameter columns by name, each gathered once."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.columns = columns

    def __missing__(self, name: str) -> Any:
        self[name] = getattr(self.columns, name)
        return self[name]


def gathered_once(rows: Indices, parameters: Sequence[Parameter]) -> Values:
    """Return columns as values that are gathered once each, since figures read the same few repeatedly."""
    return Values(_Gathered(Columns(rows, parameters)))


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """How columns are made, and from what.

    Attributes:
        missed: Names that were requested but not found; may be added to.
    """

    rows: Indices
    parameters: tuple[Parameter, ...]
    once: bool
    missed: set[str]

    def values(self) -> Values:
        """Rebuild the columns in another process; ``missed`` then records what they lack."""
        if self.once:
            return gathered_once(self.rows, self.parameters)
        columns = Columns(self.rows, self.parameters)
        columns.missed = self.missed
        return columns


def origin_of(values: Values) -> Origin | None:
    """Return the origin of columns; None for the values of one configuration."""
    once = not isinstance(values, Columns)
    columns = getattr(mapping_of(values), "columns", None) if once else values
    if not isinstance(columns, Columns):
        return None
    return Origin(columns._rows, tuple(columns._parameters), once, columns.missed)


def apply_rule(
    rule: Rule, rows: Indices, template: KernelTemplate, limits: tuple[Problem, DeviceLimits], last: bool
) -> npt.NDArray[np.bool_] | None:
    """Evaluate a rule on all rows, or return None while a parameter it reads is not there yet.

    Args:
        rows: Shape (n, c): choice indices of the template's first c parameters.
        limits: The problem, and what the device allows.
        last: All other rules have been applied. Until then a rule that divides by zero is postponed, since others may
            drop such rows.

    Raises:
        UsageError: The rule fails on the parameters that are there, or says neither yes nor no.
    """
    if not len(rows):
        return np.zeros(0, dtype=bool)
    there, later = template.parameters[: rows.shape[1]], template.parameters[rows.shape[1] :]
    coming = {name for parameter in later for name in parameter.parts(parameter.choices[0])}
    if coming and _missed(rule, Columns(rows[:1], there), template, limits) & coming:
        return None
    columns = Columns(rows, there)
    try:
        with np.errstate(divide="raise", invalid="raise"):
            holds = called(template.home, rule.holds, columns, *limits)
    except Broken as error:
        if columns.missed & coming or (error.divides and not last):
            return None
        hint = COLUMNS_HINT if error.kind in (ValueError, TypeError) else ""
        raise UsageError(
            f"template {template.name}: {error.where}: {rule.kind} '{rule.name}' fails: {error.why}{hint}"
        ) from None
    return _answers(rule, holds, len(rows), template)


def _missed(rule: Rule, one: Columns, template: KernelTemplate, limits: tuple[Problem, DeviceLimits]) -> set[str]:
    """Return which names a rule reads of one row in vain: most rules wait for a parameter, and one row tells."""
    with suppress(Broken):
        called(template.home, rule.holds, one, *limits)
    return one.missed


def _answers(rule: Rule, holds: Any, count: int, template: KernelTemplate) -> npt.NDArray[np.bool_]:
    try:
        answers = np.asarray(holds)
    except ValueError:  # from a ragged list
        answers = np.asarray(None)
    if answers.dtype.kind not in "biuf" or answers.shape not in ((), (count,)):
        raise UsageError(
            f"template {template.name}: {line_of(rule.holds)}: {rule.kind} '{rule.name}' gives "
            f"{shortened(holds)}; return whether it holds, for one configuration and for a column of them"
        )
    return np.broadcast_to(answers.astype(bool), (count,))
