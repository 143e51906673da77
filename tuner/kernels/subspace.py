"""A part of a space: only some choices of some parameters, written ``TILE_W=1,2,4 COPY_BY=register``.

It applies to one run: the study, its identity and its results stay those of the whole space.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tuner.errors import UsageError
from tuner.kernels.configuration import Configuration
from tuner.kernels.parameters import Choice
from tuner.kernels.renames import CHOICES, renamed
from tuner.kernels.space import Space, TemplateSpace
from tuner.suggestions import alternatives

TEMPLATE: Final = "template"
Choices = Mapping[str, Sequence[Choice]]


@dataclass(frozen=True, slots=True)
class Restriction:
    """The choices to which each named parameter is restricted; ``template`` may be one. Empty: the whole space.

    A template without one of the parameters has no configuration left.
    """

    allowed: tuple[tuple[str, tuple[Choice, ...]], ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str], choices: Choices) -> Restriction:
        """Read what the user wrote, ``NAME=CHOICE,CHOICE`` separated by spaces, against every parameter's choices.

        Raises:
            UsageError: Not of this form, an unknown parameter or choice, or a parameter named twice.
        """
        allowed: dict[str, tuple[Choice, ...]] = {}
        for part in " ".join(texts).split():
            name, equals, given = part.partition("=")
            if not equals:
                raise UsageError(f"--only '{part}': write NAME=CHOICE,CHOICE, as in TILE_W=1,2,4")
            name, before = renamed(name, choices), name
            if name not in choices:
                raise UsageError(f"--only {part}: no parameter '{name}'; {alternatives(name, list(choices))}")
            if name in allowed:
                raise UsageError(f"--only {part}: {name} is given twice; name all its choices at once")
            allowed[name] = _chosen(part, given, choices[name], before)
        return cls(tuple(allowed.items()))

    def __bool__(self) -> bool:
        return bool(self.allowed)

    def __str__(self) -> str:
        return " ".join(f"{name}={','.join(map(str, chosen))}" for name, chosen in self.allowed)

    def admits(self, configuration: Configuration) -> bool:
        given = {TEMPLATE: configuration.template, **configuration.as_dict()}
        return all(given.get(name) in chosen for name, chosen in self.allowed)

    def of(self, space: Space) -> Space:
        """Return the part of ``space`` that is allowed, in the same order.

        Raises:
            UsageError: Nothing is left.
        """
        if not self.allowed:
            return space
        parts = tuple(kept for part in space.parts if len(kept := self._of_template(part)))
        if not parts:
            raise UsageError(f"--only {self}: none of {len(space):,} valid configurations is left; allow more choices")
        return replace(space, parts=parts)

    def _of_template(self, part: TemplateSpace) -> TemplateSpace:
        parameters = {parameter.name: column for column, parameter in enumerate(part.template.parameters)}
        keep = np.ones(len(part), dtype=bool)
        for name, chosen in self.allowed:
            if name == TEMPLATE:
                keep &= part.template.name in chosen
            elif name not in parameters:
                keep &= False
            else:
                known = part.template.parameters[parameters[name]].choices
                keep &= np.array([choice in chosen for choice in known])[part.rows[:, parameters[name]]]
        return replace(part, rows=part.rows[keep])


def _chosen(part: str, given: str, known: Sequence[Choice], before: str) -> tuple[Choice, ...]:
    """Split at the commas between choices; a choice such as ``B,1,1`` contains commas itself.

    Args:
        before: The parameter's former name, under which its choices had other words.
    """
    names = {str(choice): choice for choice in known}
    for word, now in CHOICES.get(before, {}).items():
        if now in names:
            names.setdefault(word, names[now])
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    if not re.fullmatch(f"(?:{one})(?:,(?:{one}))*", given):
        unknown = next((word for word in given.split(",") if word not in names), given)
        raise UsageError(f"--only {part}: '{unknown}' is not a choice; there are: {' '.join(names)}")
    return tuple(dict.fromkeys(names[word] for word in re.findall(f"({one})(?:,|$)", given)))
