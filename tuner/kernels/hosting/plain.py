"""Values that may come out of a template's process: numbers, words, columns of numbers, launches, and groups of these.

They are sent as JSON plus bytes for columns: reading creates only the types named here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from operator import index
from typing import Any, Final

from tuner.errors import UsageError
from tuner.kernels.calling import shortened
from tuner.kernels.expressions import Expression, put_together, taken_apart
from tuner.kernels.launch import Launch

MOST_LETTERS: Final = 10_000  # most characters of a text that is not a source
MOST_NUMBER: Final = 2**63
MADE: Final[dict[str, type[Any]]] = {"Launch": Launch}  # our own classes, which validate their fields
FEW: Final = 10_000  # most entries of a list, unless there are more rows
DEEPEST: Final = 6
COLUMNS: Final = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"})


class Malformed(ValueError):
    """The data is not what our process sends: a template has tampered with it."""


class Odd:
    """Stands for a value that cannot be sent; has its printed form."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def printable(text: str, most: int = MOST_LETTERS) -> str:
    """Return a text without control characters, shortened."""
    text = text if len(text) <= most else f"{text[:most]}..."
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


def packed(value: Any, count: int, blobs: list[bytes], depth: int = 0) -> Any:  # noqa: PLR0911  (a case a line)
    """Return a value in a form for JSON; what is not plain data is only described.

    Args:
        count: Rows that were asked about.
        blobs: Gets the bytes of each column.
    """
    if value is None or type(value) in (bool, float):
        return value
    if isinstance(value, int) and abs(index(value)) <= MOST_NUMBER:
        return index(value)
    if isinstance(value, str) and len(value) <= MOST_LETTERS:
        return str.__str__(value)
    if hasattr(value, "dtype"):
        return _packed_column(value, count, blobs)
    if isinstance(value, Expression):
        return {"expression": taken_apart(value)}
    if type(value).__name__ in MADE and type(value) is MADE[type(value).__name__]:
        given = [[each.name, packed(getattr(value, each.name), count, blobs, depth + 1)] for each in fields(value)]
        return {type(value).__name__: given}
    if isinstance(value, list | tuple | Mapping) and len(value) <= max(FEW, count) and depth < DEEPEST:
        return _packed_group(value, count, blobs, depth + 1)
    return {"odd": shortened(value)}


def _packed_group(value: Any, count: int, blobs: list[bytes], depth: int) -> Any:
    if not isinstance(value, Mapping):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [packed(each, count, blobs, depth) for each in value]}
    pairs = [[key, packed(each, count, blobs, depth)] for key, each in value.items()]
    return {"map": pairs} if all(isinstance(key, str) for key, _ in pairs) else {"odd": shortened(value)}


def _packed_column(value: Any, count: int, blobs: list[bytes]) -> Any:
    import numpy as np

    column = np.ascontiguousarray(value)
    shape = np.shape(value)
    if column.dtype.newbyteorder("<").str not in COLUMNS or shape not in ((), (count,)):
        return {"odd": shortened(value)}
    column = column.astype(column.dtype.newbyteorder("<"))
    blobs.append(column.tobytes())
    return {"column": [column.dtype.str, len(shape)]}


def parsed(text: bytes) -> Any:
    """Return JSON as plain values.

    Raises:
        Malformed: It is not JSON, holds a number that is too long or an invalid character, or is too deep.
    """
    try:
        return json.loads(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None


class Reader:
    """Rebuilds values from what :func:`packed` returned.

    Args:
        count: Rows that were asked about.
        blob: The bytes of all columns, one after the other.
    """

    def __init__(self, count: int, blob: bytes) -> None:
        self._count, self._blob, self._at = count, blob, 0

    def read(self, value: Any) -> Any:
        """Return the value.

        Raises:
            Malformed: It is not one.
        """
        try:
            return self._read(value)
        except RecursionError:
            raise Malformed("a value within a value, too deep") from None

    def _read(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return whole(value)
        if isinstance(value, str):
            return word(value)
        if not isinstance(value, dict) or len(value) != 1:
            raise Malformed(f"{type(value).__name__} in place of a value")
        ((kind, content),) = value.items()
        return self._tagged(kind, content)

    def _tagged(self, kind: str, content: Any) -> Any:
        match kind:
            case "odd":
                return Odd(printable(word(content)))
            case "column":
                return self._column(content)
            case "expression":
                return _expression(content)
            case "list" | "tuple":
                entries = [self._read(each) for each in group(content)]
                return entries if kind == "list" else tuple(entries)
            case "map":
                pairs = [group(pair, 2) for pair in group(content)]
                return {printable(word(key)): self._read(each) for key, each in pairs}
        if kind in MADE:
            return _made(MADE[kind], self._tagged("map", content))
        raise Malformed(f"a value of the kind {printable(kind, 40)}")

    def _column(self, content: Any) -> Any:
        import numpy as np

        kind, axes = group(content, 2)
        if not isinstance(kind, str) or kind not in COLUMNS or axes not in (0, 1):
            raise Malformed("a column of another kind")
        dtype = np.dtype(kind)
        size = dtype.itemsize * (self._count if axes else 1)
        part = self._blob[self._at : self._at + size]
        self._at += size
        if len(part) != size:
            raise Malformed("a column that is cut short")
        column = np.frombuffer(part, dtype.str if kind != "|b1" else np.uint8)
        column = column != 0 if kind == "|b1" else column
        return column if axes else column[0]


def _expression(content: Any) -> Expression:
    try:
        return put_together(content)
    except ValueError as error:
        raise Malformed(str(error)) from None


def _made(kind: type[Any], given: dict[str, Any]) -> Any:
    try:
        return kind(**given)
    except (UsageError, TypeError) as error:
        raise Malformed(str(error)) from None


def whole(value: Any) -> int:
    """Return a number.

    Raises:
        Malformed: It is none, or too large.
    """
    if type(value) is not int or abs(value) > MOST_NUMBER:
        raise Malformed("no whole number")
    return value


def number(value: Any) -> float:
    """Return a number that is neither infinite nor NaN.

    Raises:
        Malformed: It is none.
    """
    if type(value) not in (int, float) or not math.isfinite(value):
        raise Malformed("no number")
    return float(value)


def word(value: Any, most: int = MOST_LETTERS) -> str:
    """Return a text that can be written to a file.

    Raises:
        Malformed: It is none, or longer than ``most``.
    """
    if type(value) is not str or len(value) > most:
        raise Malformed(f"no text of up to {most:,} letters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Malformed("half a letter in a text") from None
    return value


def group(value: Any, count: int | None = None) -> list[Any]:
    """Return a list.

    Raises:
        Malformed: It is none, or not of ``count`` entries.
    """
    if type(value) is not list or count not in (None, len(value)):
        raise Malformed("no list of this many entries")
    return value
