"""A template's declaration as plain data: written in its process, and rebuilt in ours function by function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from tuner.errors import UsageError
from tuner.kernels.calling import Elsewhere, Home, line_of
from tuner.kernels.configuration import Baseline
from tuner.kernels.hosting.plain import MOST_NUMBER, Malformed, group, number, printable, whole, word
from tuner.kernels.parameters import Parameter
from tuner.kernels.rules import Constraint, Heuristic
from tuner.kernels.sources import Source
from tuner.kernels.template import KernelTemplate

MOST_SOURCE: Final = 16 << 20  # characters
PARTS: Final[dict[str, type[Any]]] = {part.__name__: part for part in (Parameter, Constraint, Heuristic, Baseline)}
OURS: Final = frozenset({"home"})  # fields that a template's process does not set

Functions = list[Callable[..., Any]]
Fields = dict[str, Any]


def written(template: KernelTemplate, functions: Functions) -> Fields:
    """Return a template's fields; its functions, and those of its parts, are numbered in the order of ``functions``.

    Raises:
        UsageError: Something declared is not plain data.
    """
    return {
        each.name: _written(getattr(template, each.name), f"template {template.name}: {each.name}", functions)
        for each in fields(template)
        if each.name not in OURS
    }


def _written(value: Any, what: str, functions: Functions) -> Any:  # noqa: PLR0911  (a case a line)
    if value is None or type(value) in (bool, float):
        return value
    if isinstance(value, Source):
        return {"source": [str.__str__(value), [[file, line] for file, line in value.places]]}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and abs(value) <= MOST_NUMBER:
        return int(value)
    if isinstance(value, list | tuple):
        return {"tuple": [_written(each, what, functions) for each in value]}
    part = next((name for name, kind in PARTS.items() if isinstance(value, kind)), "")
    if part:
        given = {each.name: getattr(value, each.name) for each in fields(PARTS[part])}
        return {part: {name: _written(each, f"{what}: {name}", functions) for name, each in given.items()}}
    if callable(value):
        functions.append(value)
        return {"function": [len(functions) - 1, line_of(value)]}
    try:
        return {"map": [[str(key), _written(each, what, functions)] for key, each in value.items()]}
    except AttributeError:
        raise UsageError(
            f"{what}: a {type(value).__name__} is not plain data; give numbers, words and tuples"
        ) from None


def made(given: Any, home: Home, function: Callable[[int, str], Elsewhere]) -> KernelTemplate:
    """Return the template that :func:`written` wrote.

    Args:
        function: Makes the stand-in for a function from its number and line.

    Raises:
        Malformed: It is not what :func:`written` wrote.
        UsageError: A template may not declare this.
    """
    known = {each.name for each in fields(KernelTemplate)} - OURS
    if not isinstance(given, dict) or not set(given) <= known:
        raise Malformed("other fields than a template's")
    read = {name: _made(each, function) for name, each in given.items()}
    for name in ("wide_indices", "static_memory"):
        if not isinstance(read.get(name, False), bool):
            raise Malformed(f"{name} that is neither yes nor no")
    try:
        return KernelTemplate(**read, home=home)
    except TypeError as error:
        raise Malformed(str(error)) from None


def _made(value: Any, function: Callable[[int, str], Elsewhere]) -> Any:  # noqa: PLR0911  (a case a line)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return whole(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return printable(word(value, MOST_SOURCE), MOST_SOURCE)
    if not isinstance(value, dict) or len(value) != 1:
        raise Malformed("no value")
    ((kind, content),) = value.items()
    if kind == "source":
        return _source(content)
    if kind == "function":
        place, line = group(content, 2)
        return function(whole(place), printable(word(line)))
    if kind == "tuple":
        return tuple(_made(each, function) for each in group(content))
    if kind == "map":
        return {word(key): _made(each, function) for key, each in (group(pair, 2) for pair in group(content))}
    return _part(kind, content, function)


def _part(kind: str, content: Any, function: Callable[[int, str], Elsewhere]) -> Any:
    if kind not in PARTS or not isinstance(content, dict):
        raise Malformed("a part that no template has")
    try:
        return PARTS[kind](**{name: _made(each, function) for name, each in content.items()})
    except TypeError as error:
        raise Malformed(str(error)) from None


def _source(content: Any) -> Source:
    text, places = group(content, 2)
    lines = word(text, MOST_SOURCE).split("\n")
    if len(group(places)) != len(lines):
        raise Malformed("a source whose lines lie nowhere")
    where = [(printable(word(file)), whole(line)) for file, line in (group(place, 2) for place in places)]
    return Source.of(lines, where)
