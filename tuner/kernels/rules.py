"""Rules for the configurations of a space: constraints, without which one would not run, and heuristics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.errors import UsageError
from tuner.kernels.limits import DeviceLimits

# Any: a template is for one kind of problem and annotates that, such as ConvLayer.
Predicate = Callable[[Any, Any, DeviceLimits], Any]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule known before compiling: a configuration that breaks it cannot run, or computes something else.

    ``holds(p, problem, limits)`` must work on scalars and on columns.
    """

    name: str
    holds: Predicate
    reason: str

    def __post_init__(self) -> None:
        if not callable(self.holds):
            raise UsageError(f"constraint '{self.name}': no function; write lambda p, problem, limits: ...")

    @property
    def kind(self) -> str:
        return "constraint"


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A rule of thumb, separate from validity: a configuration that it rejects would run, but is not worth a trial.

    ``keeps(p, problem, limits)`` must work on scalars and on columns; ``--no-heuristics`` searches the others too.
    """

    name: str
    keeps: Predicate
    why: str

    def __post_init__(self) -> None:
        if not callable(self.keeps):
            raise UsageError(f"heuristic '{self.name}': no function; write lambda p, problem, limits: ...")

    @property
    def holds(self) -> Predicate:
        return self.keeps

    @property
    def reason(self) -> str:
        return self.why

    @property
    def kind(self) -> str:
        return "heuristic"


Rule = Constraint | Heuristic
