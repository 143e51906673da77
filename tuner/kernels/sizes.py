"""Sizes derived from a configuration and a layer: each is written once, in Python, and passed to the kernel.

A template's class of sizes has a method for each, marked :func:`size`; its docstring is the comment beside the number::

    class Tile(Sizes):
        @size
        def strips(self):
            \"\"\"tiles side by side\"\"\"
            return up(self.layer.W_out, self.p.TILE_W)

The kernel has ``constexpr int STRIPS = 2;  // tiles side by side`` (in OpenCL C a ``#define``), constraints and launch
``Tile(p, layer).strips``, for one configuration or for columns of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

from tuner.errors import UsageError
from tuner.kernels.calling import Elsewhere
from tuner.kernels.expressions import MOST
from tuner.kernels.words import check_name
from tuner.problems.problem import Problem

NAME = re.compile(r"[A-Z][A-Z0-9_]*")

if TYPE_CHECKING:
    size = property  # for type checkers
else:

    class size(cached_property):  # noqa: N801 - a decorator
        """A size that the kernel gets, in capitals; computed when first read."""


class Sizes:
    """The sizes of one configuration, or columns of them."""

    def __init__(self, p: Any, layer: Any) -> None:
        self.p = p
        self.layer = layer


class ConvSizes(Sizes):
    """Sizes of a convolution's configuration, with those derived from the layer alone."""

    @size
    def h_out(self) -> Any:
        """rows of y"""
        return self.layer.H_out

    @size
    def w_out(self) -> Any:
        """columns of y"""
        return self.layer.W_out

    @size
    def filter(self) -> Any:
        """terms of a filter's channel"""
        return self.layer.K**2


def told(sizes: Callable[[Any, Problem], Any], p: Any, layer: Problem) -> dict[str, tuple[int, str]]:
    """Return the sizes that the kernel gets for one configuration: number and comment by name.

    Raises:
        UsageError: A name is taken or not in capitals, or a size is not a whole number.
    """
    given = sizes(p, layer)
    if isinstance(sizes, Elsewhere):  # which computed them in its process
        return _told_elsewhere(given)
    if isinstance(given, Sizes):
        return {name.upper(): (_number(name, getattr(given, name)), doc) for name, doc in _marked(type(given)).items()}
    if not isinstance(given, Mapping):
        raise UsageError(f"sizes gives {given!r:.60}; return a dictionary such as {{'STEPS': 6}}")
    for name in given:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise UsageError(f"size '{name}': the name must be upper case, like STEPS")
        check_name(name, "size")
    if taken := set(given) & set(p.names()):
        raise UsageError(f"size {min(taken)}: a parameter is called so; rename one")
    return {name: (_number(name, each), "") for name, each in given.items()}


def _told_elsewhere(given: Any) -> dict[str, tuple[int, str]]:
    try:
        known = {name: (_number(name, number), " ".join(doc.split())) for name, (number, doc) in given.items()}
        strange = next((name for name in known if not NAME.fullmatch(name)), "")
    except (AttributeError, TypeError, ValueError):
        strange = "?"
    if strange:
        raise UsageError(f"size '{strange}' is none; give numbers by names in upper case")
    return known


def _marked(kind: type[Sizes]) -> dict[str, str]:
    """Return the names of a class's sizes, as they are written, and their comments."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        for name, value in vars(each).items():
            if isinstance(value, size):
                found[name] = " ".join((value.__doc__ or "").split())
    return found


def _number(name: str, value: Any) -> int:
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    try:
        number = index(value)
    except TypeError:
        raise UsageError(f"size {name} is {value!r:.60}; give a whole number") from None
    if abs(number) > MOST:
        raise UsageError(f"size {name} is {number}; an int holds less than 2^31")
    return number
