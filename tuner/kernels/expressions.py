"""Whole numbers computed from the batch: the same arithmetic gives a number, or C text for an exported header.

A template's ``launch`` is called with ``BATCH`` as its problem's B. What it computes by ``+``, ``-``, ``*`` and ``//``
with whole numbers (so by :func:`tuner.kernels.arithmetic.up`) and by ``smaller`` comes back as an :class:`Expression`.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

MOST = 2**31 - 1  # largest int, and most blocks along one dimension


class Undecided(TypeError):
    """The answer differs from batch to batch."""


class Part(Protocol):
    """A term of a sum."""

    def at(self, B: int) -> tuple[int, int]: ...
    def text(self) -> str: ...
    def words(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _Batch:
    def at(self, B: int) -> tuple[int, int]:
        return B, B

    def text(self) -> str:
        return "(B)"

    def words(self) -> str:
        return "B"


@dataclass(frozen=True, slots=True)
class _Quotient:
    """``total / part``, rounded down or up; the total is never negative."""

    total: Expression
    part: int
    rounded_up: bool

    def at(self, B: int) -> tuple[int, int]:
        total, most = self.total.computed(B)
        total += (self.part - 1) * self.rounded_up
        return total // self.part, max(most, total)

    def text(self) -> str:
        total = f"({self.total.text()} + {self.part - 1})" if self.rounded_up else self.total.text()
        return f"({total} / {self.part})"

    def words(self) -> str:
        total = self.total.words()
        total = f"({total})" if " + " in total or " - " in total else total
        return f"{'ceil' if self.rounded_up else 'floor'}({total} / {self.part})"


@dataclass(frozen=True, slots=True)
class _Least:
    """``of``, but at most ``cap``."""

    of: Expression
    cap: int

    def at(self, B: int) -> tuple[int, int]:
        number, most = self.of.computed(B)
        return min(number, self.cap), most

    def text(self) -> str:
        return f"({self.of.text()} < {self.cap} ? {self.of.text()} : {self.cap})"

    def words(self) -> str:
        return f"min({self.of.words()}, {self.cap})"


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """``offset`` plus some parts, each times a whole number."""

    terms: tuple[tuple[Part, int], ...]
    offset: int = 0

    def computed(self, B: int) -> tuple[int, int]:
        """Return the number for a batch, and the largest intermediate one."""
        total, most = self.offset, 0
        for part, factor in self.terms:
            number, within = part.at(B)
            total += factor * number
            most = max(most, within, factor * number)
        return total, max(most, total)

    def at(self, B: int) -> int:
        """Return the number for a batch."""
        return self.computed(B)[0]

    def text(self) -> str:
        """Return the C expression of a macro's argument ``B``."""
        parts = [part.text() if factor == 1 else f"{factor} * {part.text()}" for part, factor in self.terms]
        if not parts:
            return str(self.offset)
        if len(parts) == 1 and not self.offset:
            return parts[0] if self.terms[0][1] == 1 else f"({parts[0]})"
        return f"({' + '.join([*parts, *([str(self.offset)] if self.offset else [])])})".replace("+ -", "- ")

    def words(self) -> str:
        """Return the expression for readers: ``16 * ceil(B / 8)``."""
        parts = [part.words() if factor == 1 else f"{factor} * {part.words()}" for part, factor in self.terms]
        return " + ".join([*parts, *([str(self.offset)] if self.offset else [])]).replace("+ -", "- ")

    @property
    def rises(self) -> bool:
        """Whether a larger batch never gives a smaller number."""
        return all(factor > 0 for _, factor in self.terms)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Expression):
            return (self.terms, self.offset) == (other.terms, other.offset)
        raise Undecided(f"whether {self.words()} is {other} differs from batch to batch")

    def __hash__(self) -> int:
        return hash((self.terms, self.offset))

    def __add__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            merged = dict(self.terms)
            for part, factor in other.terms:
                merged[part] = merged.get(part, 0) + factor
            return Expression(tuple(each for each in merged.items() if each[1]), self.offset + other.offset)
        return Expression(self.terms, self.offset + _whole(other))

    def __mul__(self, other: Any) -> Any:
        factor = _whole(other)
        if not factor:
            return 0
        return Expression(tuple((part, factor * each) for part, each in self.terms), factor * self.offset)

    def __floordiv__(self, other: Any) -> Any:
        return self if (part := _whole(other)) == 1 else _divided(self, part)

    def __neg__(self) -> Expression:
        return Expression(tuple((part, -factor) for part, factor in self.terms), -self.offset)

    def __sub__(self, other: Any) -> Expression:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Expression:
        return (-self).__add__(other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> _Ratio:
        return _Ratio(self, _whole(other))

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return self > _whole(other) - 1

    def __gt__(self, other: Any) -> bool:
        """Compare, if the answer is the same for every batch of at least 1."""
        if self.rises and self.at(1) > _whole(other):
            return True
        raise Undecided(f"{self.words()} is compared, which only a batch's number decides; write smaller(a, b) for min")

    def __bool__(self) -> bool:
        return self > 0

    def __index__(self) -> int:
        raise Undecided(f"{self.words()} is not a number until the batch is known")

    __int__ = __float__ = __index__


@dataclass(frozen=True, slots=True)
class _Ratio:
    """A quotient that ``math.ceil`` or ``math.floor`` has yet to round."""

    total: Expression
    part: int

    def __ceil__(self) -> Any:
        return -(-self.total // self.part)

    def __floor__(self) -> Any:
        return self.total // self.part

    __trunc__ = __floor__


def _divided(total: Expression, part: int) -> Expression:
    """Return a quotient rounded down: of a negative total, minus that of the positive one rounded up."""
    if part < 1:
        raise Undecided(f"{total.words()} is divided by {part}")
    for sign in (1, -1):
        signed = total * sign
        if signed.rises and signed.at(1) >= 0:
            return Expression(((_Quotient(signed, part, sign < 0), sign),))
    raise Undecided(f"{total.words()} is divided, and may be negative")


def least(a: Any, b: Any) -> Any:
    """Return the smaller of two, one of which is an expression that increases with the batch."""
    of, cap = (a, b) if isinstance(a, Expression) else (b, a)
    if isinstance(cap, Expression) or not of.rises:
        raise Undecided(f"{of.words()} is compared with what follows from the batch too")
    return cap if of.at(1) >= cap else Expression(((_Least(of, _whole(cap)), 1),))


def _whole(value: Any) -> int:
    if isinstance(value, Expression | float | str):
        raise Undecided(f"{value} is not a whole number here")
    return index(value)


BATCH = Expression(((_Batch(), 1),))


def taken_apart(expression: Expression) -> list[Any]:
    """Return an expression as lists of numbers, which :func:`put_together` reads."""
    return [[[_part_apart(part), factor] for part, factor in expression.terms], expression.offset]


def _part_apart(part: Part) -> list[Any]:
    if isinstance(part, _Quotient):
        return [taken_apart(part.total), part.part, part.rounded_up]
    return [taken_apart(part.of), part.cap] if isinstance(part, _Least) else []


def put_together(given: Any) -> Expression:
    """Return the expression for these lists.

    Raises:
        ValueError: They are not those of an expression.
    """
    terms, offset = _entries(given, 2)
    pairs = [_entries(term, 2) for term in _entries(terms)]
    return Expression(tuple((_part_together(part), _number(factor)) for part, factor in pairs), _number(offset))


def _part_together(given: Any) -> Part:
    match _entries(given):
        case []:
            return _Batch()
        case [total, part, bool(rounded_up)] if _number(part) > 0:
            return _Quotient(put_together(total), part, rounded_up)
        case [of, cap]:
            return _Least(put_together(of), _number(cap))
    raise ValueError("no part of a sum")


def _entries(given: Any, count: int | None = None) -> list[Any]:
    if type(given) is not list or count not in (None, len(given)):
        raise ValueError("no list of this many entries")
    return given


def _number(given: Any) -> int:
    if type(given) is not int:
        raise ValueError("no whole number")
    return given
