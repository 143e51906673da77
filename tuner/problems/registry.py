"""The kinds of problem, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.errors import UsageError
from tuner.problems.problem import Problem
from tuner.suggestions import alternatives

KINDS = ("conv", "gemm")


def kind_of(name: str) -> type[Problem]:
    """Return the class of a kind.

    Raises:
        UsageError: No such kind; names a near one.
    """
    if name == "conv":
        from tuner.problems.conv.layers import ConvLayer

        return ConvLayer
    if name == "gemm":
        from tuner.problems.gemm import Gemm

        return Gemm
    raise UsageError(f"problem '{name}' is unknown; {alternatives(name, list(KINDS))}")


def arguments_of(entry: str) -> str:
    """Return what a template's kernel of this name takes, as C declares it; nothing for another name."""
    return next((kind_of(kind).ARGUMENTS for kind in KINDS if entry == kind_of(kind).ENTRY), "")


def problem_of(kind: str, name: str, sizes: Mapping[str, int]) -> Problem:
    """Return the problem of a kind, a name and sizes.

    Raises:
        UsageError: No such kind, or a size is out of range.
    """
    return kind_of(kind)(name=name, **sizes)  # type: ignore[call-arg]
