"""A problem from what a person writes: a layer's name or sizes, or another kind with its own: ``gemm:N=512,K=512``."""

from __future__ import annotations

from tuner.errors import UsageError
from tuner.problems.conv.layers import find_layer, says_batch
from tuner.problems.problem import Problem
from tuner.problems.registry import kind_of, problem_of


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
