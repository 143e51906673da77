"""All valid configurations of one or several templates, enumerated once and addressed by number.

Parameters are expanded one at a time and each constraint is applied as soon as its parameters are present, so the
full Cartesian product never exists in memory. A configuration is a row of choice indices (one byte each).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tuner.errors import UsageError
from tuner.kernels.columns import Indices, apply_rule
from tuner.kernels.configuration import Configuration
from tuner.kernels.limits import DeviceLimits
from tuner.kernels.rules import Rule
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem


@dataclass(frozen=True, kw_only=True)
class TemplateSpace:
    """The valid configurations of one template for a problem on a device.

    Attributes:
        rows: Shape (n, number of parameters): index into each parameter's choices.
        dropped: How many partial or full combinations each rule removed, by its name.
    """

    template: KernelTemplate
    problem: Problem
    limits: DeviceLimits
    rows: Indices
    dropped: dict[str, int]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def left_out(self) -> int:
        """How many partial or full combinations heuristics removed."""
        return sum(self.dropped.get(rule.name, 0) for rule in self.template.heuristics)

    @property
    def emptied_by(self) -> str:
        """Why nothing is valid: the reason given by the rule that removed the last combinations."""
        last = next((name for name, count in reversed(self.dropped.items()) if count), "")
        return next((f"{rule.reason} ({rule.name})" for rule in self.template.rules if rule.name == last), last)

    def configuration(self, row: int) -> Configuration:
        chosen = zip(self.template.parameters, self.rows[row], strict=True)
        return Configuration(
            template=self.template.name,
            values=tuple((parameter.name, parameter.choices[index]) for parameter, index in chosen),
        )

    def find(self, configuration: Configuration) -> int | None:
        """Return the row of ``configuration``, or None when it is not a valid point of this space."""
        values = configuration.as_dict()
        if set(values) != {parameter.name for parameter in self.template.parameters}:
            return None
        try:
            row = [parameter.choices.index(values[parameter.name]) for parameter in self.template.parameters]
        except ValueError:
            return None
        code = self._encode(np.array([row], dtype=np.uint8))[0]
        position = int(np.searchsorted(self._codes, code))
        return position if position < len(self) and self._codes[position] == code else None

    def _encode(self, rows: Indices) -> npt.NDArray[np.int64]:
        sizes = [len(parameter.choices) for parameter in self.template.parameters]
        codes = np.zeros(len(rows), dtype=np.int64)
        for column, size in enumerate(sizes):
            codes = codes * size + rows[:, column]
        return codes

    @cached_property
    def _codes(self) -> npt.NDArray[np.int64]:
        return self._encode(self.rows)  # ascending, since rows are enumerated in order


def enumerate_template(template: KernelTemplate, problem: Problem, limits: DeviceLimits) -> TemplateSpace:
    """Enumerate the valid configurations of one template, in lexicographic order of its choices.

    Raises:
        UsageError: A constraint fails, or says neither yes nor no; names it and the template's line.
    """
    rows: Indices = np.zeros((1, 0), dtype=np.uint8)
    waiting = list(template.rules)
    dropped: dict[str, int] = {}
    for parameter in template.parameters:
        choices = np.arange(len(parameter.choices), dtype=np.uint8)
        rows = np.hstack([np.repeat(rows, len(choices), axis=0), np.tile(choices, len(rows))[:, None]])
        for last in (False, True) if rows.shape[1] == len(template.parameters) else (False,):
            waiting_still: list[Rule] = []
            for rule in waiting:
                keep = apply_rule(rule, rows, template, (problem, limits), last)
                if keep is None:
                    waiting_still.append(rule)
                    continue
                dropped[rule.name] = dropped.get(rule.name, 0) + int(len(rows) - np.count_nonzero(keep))
                rows = rows[keep]
            waiting = waiting_still
    return TemplateSpace(template=template, problem=problem, limits=limits, rows=rows, dropped=dropped)


@dataclass(frozen=True, kw_only=True)
class Space:
    """The union of several templates' spaces; a global index is a template's offset plus a row.

    Attributes:
        left_out: Names of templates without a valid configuration here, each with the reason.
    """

    problem: Problem
    parts: tuple[TemplateSpace, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __getitem__(self, index: int) -> Configuration:
        part, row = self.locate(index)
        return part.configuration(row)

    def __iter__(self) -> Iterator[Configuration]:
        return (part.configuration(row) for part in self.parts for row in range(len(part)))

    def locate(self, index: int) -> tuple[TemplateSpace, int]:
        """Return the template space and the row behind a global index."""
        for part in self.parts:
            if index < len(part):
                return part, index
            index -= len(part)
        raise IndexError(index)

    def find(self, configuration: Configuration) -> int | None:
        """Return the global index of a configuration, or None when it is not valid here."""
        offset = 0
        for part in self.parts:
            if part.template.name == configuration.template:
                row = part.find(configuration)
                return None if row is None else offset + row
            offset += len(part)
        return None

    def template(self, name: str) -> KernelTemplate:
        return next(part.template for part in self.parts if part.template.name == name)

    @property
    def digest(self) -> str:
        """Identity of the space: templates, parameters, choices, and which combinations are valid."""
        text = hashlib.sha256()
        for part in self.parts:
            text.update(part.template.digest.encode())
            text.update(part.rows.tobytes())
        return text.hexdigest()


def enumerate_space(templates: Sequence[KernelTemplate], problem: Problem, limits: DeviceLimits) -> Space:
    """Enumerate several templates for one problem on one device.

    Raises:
        UsageError: A constraint fails; or two templates have one name.
    """
    names = [template.name for template in templates]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"template {min(twice)}: two have this name; give one of them, or rename it")
    parts, left_out = [], []
    for template in templates:
        if limits.dialect not in template.dialects:
            left_out.append((template.name, f"it is written for {' and '.join(template.dialects)} alone"))
            continue
        part = enumerate_template(template, problem, limits)
        if len(part):
            parts.append(part)
        else:
            left_out.append((template.name, part.emptied_by))
    return Space(problem=problem, parts=tuple(parts), left_out=tuple(left_out))
