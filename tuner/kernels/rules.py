"""What a configuration of a space fulfils: constraints, without which it would not run, and heuristics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.errors import UsageError
from tuner.kernels.limits import DeviceLimits

# A template is for one kind of problem and annotates its own, such as ConvLayer: Any stands in its place.
Predicate = Callable[[Any, Any, DeviceLimits], Any]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule known before compiling: what breaks it cannot run, or computes something else.

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
    """A matter of taste, told apart from what is valid: what it does not keep would run, and is not worth a trial.

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
