"""A template's parameters: their names, their choices, and shapes like ``32x8``, which have two parts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tuner.errors import UsageError
from tuner.kernels.calling import shortened
from tuner.kernels.words import check_choices, check_name, enumerator

Choice = int | str
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_SHAPE = re.compile(r"(\d+)x(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A tunable: its SCREAMING name, its choices in order of simplicity (ties go to the earlier), and what it does.

    Raises:
        UsageError: The name is not SCREAMING, or there are no choices, or one is given twice.
    """

    name: str
    choices: tuple[Choice, ...]
    doc: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UsageError(f"parameter '{self.name}': the name must be upper case, like TILE_WIDTH")
        check_name(self.name)
        if isinstance(self.choices, list):
            object.__setattr__(self, "choices", tuple(self.choices))
        if not isinstance(self.choices, tuple):
            raise UsageError(f"parameter {self.name}: choices are {shortened(self.choices)}; give a tuple: (1, 2)")
        if not self.choices:
            raise UsageError(f"parameter {self.name}: no choices; give at least one")
        for choice in self.choices:
            if isinstance(choice, bool) or not isinstance(choice, int | str):
                raise UsageError(
                    f"parameter {self.name}: choice {choice!r} is neither a whole number nor a word; give one of these"
                )
        if len(set(self.choices)) != len(self.choices):
            raise UsageError(f"parameter {self.name}: a choice is given twice in {self.choices}; give each once")
        check_choices(self.name, self.choices)

    @property
    def is_shape(self) -> bool:
        return _are_shapes(self.choices)

    def parts(self, choice: Choice) -> dict[str, Choice]:
        """Return the names this choice defines: the parameter itself and, for a shape, its X and Y."""
        values: dict[str, Choice] = {self.name: choice}
        if self.is_shape and (match := _SHAPE.fullmatch(str(choice))):
            stem = self.name.removesuffix("_SHAPE")
            values |= {f"{stem}_X": int(match[1]), f"{stem}_Y": int(match[2])}
        return values

    def words(self) -> dict[str, str]:
        """Return each word that a kernel sees of this parameter, and what it is."""
        if self.is_shape:
            parts = (part for part in self.parts(self.choices[0]) if part != self.name)
            return {self.name: f"the parameter {self.name}", **dict.fromkeys(parts, f"a part of {self.name}")}
        words = {
            enumerator(self.name, each): f"{self.name}'s '{each}'" for each in self.choices if isinstance(each, str)
        }
        return {self.name: f"the parameter {self.name}", **words}


@cache
def _are_shapes(choices: tuple[Choice, ...]) -> bool:
    return all(isinstance(choice, str) and _SHAPE.fullmatch(choice) for choice in choices)
