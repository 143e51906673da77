"""A problem from what a person writes: a layer's name or sizes, or another kind with its own: ``gemm:N=512,K=512``."""

from __future__ import annotations

from tuner.errors import UsageError
from tuner.problems.conv.layers import DEFAULT_NETWORK, LAYERS, find_layer, full_name, is_layer, says_batch
from tuner.problems.problem import Problem
from tuner.problems.registry import KINDS, kind_of, problem_of


def find_problem(text: str, rows: int | None = None) -> Problem:
    """Return the problem that is meant; its rows, if nobody says how many, are those of its kind.

    Args:
        rows: Replaces the rows when given.

    Raises:
        UsageError: No such problem (names a near one), or a size is missing, unknown, or out of range.
    """
    kind, colon, sizes = text.partition(":")
    if not colon:
        return find_layer(text, rows)
    found = _of_kind(kind.strip().lower(), sizes)
    return found if rows is None else found.with_rows(rows)


def says_rows(text: str) -> bool:
    """Whether a text's sizes say how many rows there are."""
    kind, colon, sizes = text.partition(":")
    if not colon:
        return says_batch(text)
    return kind_of(kind.strip().lower()).ROWS in _numbers(text, sizes)


def is_problem(text: str) -> bool:
    """Whether :func:`find_problem` takes this for a problem, and not a store for one of its studies."""
    return is_layer(text)


def is_named(name: str, text: str) -> bool:
    """Whether a text is the name of a problem, whole or brief, in either case."""
    return name.casefold() in (text.casefold(), full_name(text))


def short_name(name: str) -> str:
    """Return the briefest name of a problem: ``sp18/conv2`` is ``conv2``."""
    return name.removeprefix(f"{DEFAULT_NETWORK}/")


def known_names() -> list[str]:
    """Return the names that need no sizes, the brief ones first."""
    return [*(short_name(name) for name in LAYERS if name.startswith(DEFAULT_NETWORK)), *LAYERS]


def described_problem(name: str, text: str) -> Problem | None:
    """Return the problem that :meth:`Problem.describe` wrote down, or None for another text."""
    found = (kind_of(kind).described(name, text) for kind in KINDS)
    return next((each for each in found if each), None)


def _of_kind(kind: str, sizes: str) -> Problem:
    known, numbers = kind_of(kind), _numbers(kind, sizes)
    if kind == "conv":
        return find_layer(sizes)
    for size in numbers:
        if size not in known.SIZES:
            raise UsageError(f"{kind} '{sizes}': '{size}' is not a size; give {', '.join(known.SIZES)}")
    if missing := [size for size in known.SIZES if size not in numbers and size != known.ROWS]:
        example = ",".join(f"{size}=512" for size in known.SIZES)
        raise UsageError(f"{kind} '{sizes}': {', '.join(missing)} missing; write --sizes {example}")
    name = f"{kind}/" + "".join(f"{size}{numbers[size]}" for size in known.SIZES if size != known.ROWS)
    return problem_of(kind, name, numbers)


def _numbers(kind: str, text: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        given, _, value = (piece.strip() for piece in part.partition("="))
        if given.upper() in numbers:
            raise UsageError(f"{kind} '{text}': {given} is given twice; give it once")
        if not value.isdecimal():
            raise UsageError(f"{kind} '{text}': {given}='{value}' is not a whole number; write {given}=512")
        numbers[given.upper()] = int(value)
    return numbers
