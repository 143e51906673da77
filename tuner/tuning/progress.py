"""What a run tells whoever watches it, and what it ends with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from tuner.layers import ConvLayer
from tuner.results import Environment, Result
from tuner.tuning.foresight import Foreseen


@dataclass(slots=True)
class Costs:
    """Where the run's time went, in seconds; ``tuner`` is all that is none of the others."""

    prepare: float = 0.0
    compile_wait: float = 0.0
    check: float = 0.0
    measure: float = 0.0
    finals: float = 0.0
    total: float = 0.0

    @property
    def tuner(self) -> float:
        return max(0.0, self.total - self.prepare - self.compile_wait - self.check - self.measure - self.finals)


@dataclass(slots=True)
class Progress:
    """A run's state after each trial.

    Attributes:
        space: Valid configurations in all.
        known: Results the study had before this run.
        reused: Those of them that were taken over from another study.
        naive: Seconds of the naive baseline on this device, or None until known.
    """

    study: str
    layer: ConvLayer
    environment: Environment
    space: int
    trials: int | None
    seconds: float | None
    known: int = 0
    done: int = 0
    reused: int = 0
    elapsed: float = 0.0
    best: Result | None = None
    naive: float | None = None
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def floor(self) -> float | None:
        """The roofline's bound in seconds, or None while the device's ceilings are not known."""
        flops, rate = self.environment.peak_flops, self.environment.peak_bytes
        return self.layer.floor_seconds(rate, flops) if flops and rate else None

    def share_of_floor(self, seconds: float) -> float | None:
        """Return floor / seconds: 1.0 is as fast as the device allows."""
        return self.floor / seconds if self.floor else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One line of the final tables: a result with its place."""

    result: Result
    number: int | None
    winner: bool = False
    tied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a run ended.

    Attributes:
        reason: Why it stopped: ``trials``, ``time``, ``exhausted``, ``interrupted``.
        best: The five best, the winner first; those within the noise of it are ``tied``.
        baselines: Every named baseline that was measured, in the templates' order.
        failed: Results of this run that are not ``ok``.
        foreseen: How the predictions of resources did.
    """

    progress: Progress
    reason: str
    best: tuple[Standing, ...]
    baselines: tuple[Result, ...]
    failed: tuple[Result, ...]
    costs: Costs
    health: tuple[str, ...] = ()
    foreseen: Foreseen = field(default_factory=Foreseen)

    @property
    def winner(self) -> Result | None:
        return self.best[0].result if self.best else None


class Observer(Protocol):
    """Whoever watches a run: a progress bar, plain lines, nothing."""

    def says(self, line: str) -> None:
        """Show one line of news."""

    def trial(self, result: Result, progress: Progress) -> None:
        """Show that a trial has ended."""
