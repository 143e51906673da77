"""Former names of the built-in templates' parameters and choices, so that old results and commands can be read.

A store or a recording keeps the names it was written with; they are translated when read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

Value = TypeVar("Value")
_COPIES = {"plain": "register", "async": "cp_async"}
_NAMES = {
    "OPERANDS": "MMA_TYPE",
    "SHIFTS": "PIXELS_PER_ROW",
    "WRITES": "EPILOGUE",
    "SEQUENCE": "TILES_PER_BLOCK",
    "BUFFERS": "STAGES",
}
NAMES: Final[Mapping[str, Mapping[str, str]]] = {  # by template: a parameter's former name, and today's
    "register_tile": {"STAGING": "COPY_BY"},
    "tensor_core": {**_NAMES, "STAGING": "COPY_BY", "SPLIT_C": "SPLIT_K"},
    "warpgroup": {**_NAMES, "LOADERS": "PRODUCER_THREADS"},
}
CHOICES: Final[Mapping[str, Mapping[str, str]]] = {  # by a parameter's former name: its choices, if they changed
    "STAGING": _COPIES,
    "WRITES": {"exchange": "shuffle", "lanes": "direct", "rows": "shared"},
}
PLAIN: Final = frozenset({"direct", "shared_tile", "channel_vector"})  # built-in templates without renames


def current_values(template: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return a configuration's values by the names and words of today."""
    names = NAMES.get(template, {})
    return {names.get(name, name): _choice(name, value) if name in names else value for name, value in values.items()}


def former_values(template: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return a configuration's values as an older version named them."""
    before = {now: name for name, now in NAMES.get(template, {}).items()}
    return {before.get(now, now): _former(before.get(now, now), value) for now, value in values.items()}


def current_columns(templates: Iterable[str], columns: Sequence[str]) -> dict[str, str]:
    """Return today's names of a table's columns, where all templates that might have a column renamed it."""
    there = set(templates)
    known = [NAMES[template] for template in NAMES if template in there]
    found: dict[str, str] = {}
    for column in columns:
        now = {names[column] for names in known if column in names}
        if len(now) == 1 and there <= NAMES.keys() | PLAIN and not now & set(columns):
            found[column] = now.pop()
    return found


def current_choices(column: str, choices: Iterable[Value]) -> tuple[Value, ...]:
    """Return a renamed column's choices in the words of today."""
    return tuple(_choice(column, choice) for choice in choices)


def renamed(name: str, known: Iterable[str]) -> str:
    """Return today's name for an unknown name; the name itself if it was never a former one."""
    there = set(known)
    now = {names[name] for names in NAMES.values() if name in names} & there
    return name if name in there or len(now) != 1 else now.pop()


def _choice(name: str, value: Value) -> Value:
    words: Mapping[Any, Any] = CHOICES.get(name, {})
    return cast(Value, words.get(value, value))


def _former(name: str, value: Value) -> Value:
    words: Mapping[Any, Any] = {now: before for before, now in CHOICES.get(name, {}).items()}
    return cast(Value, words.get(value, value))
