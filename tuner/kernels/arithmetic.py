"""Arithmetic for constraints and launch geometry, on the values of one configuration or on columns of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tuner.kernels.expressions import Expression, least


def up(total: Any, part: Any) -> Any:
    """Return how many parts cover the total: the quotient, rounded up."""
    return -(-total // part)


def larger(a: Any, b: Any) -> Any:
    return a + (b > a) * (b - a)


def smaller(a: Any, b: Any) -> Any:
    if isinstance(a, Expression) or isinstance(b, Expression):
        return least(a, b)
    return a + (b < a) * (b - a)


def pick(condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` where the condition holds, else ``no``."""
    return condition * yes + (1 - 1 * condition) * no


def one_of(value: Any, choices: Iterable[Any]) -> Any:
    """Whether the value is among some choices."""
    found: Any = False
    for choice in choices:
        found = found | (value == choice)
    return found
