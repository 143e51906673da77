"""What a run reports to its observer, and its final report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tuner.bench.protocol import Verdict
from tuner.bench.roofline import Roof, Yardstick
from tuner.errors import StorageError
from tuner.problems.problem import Problem
from tuner.problems.whole import Agreement
from tuner.results import Environment, Result
from tuner.tuning.resource_filter import FilterStats


@dataclass(slots=True)
class Costs:
    """Where the run's time went, in seconds; ``tuner`` is the remainder.

    Attributes:
        load: Time in the worker other than checking and measuring: loading binaries, timing the canary.
    """

    prepare: float = 0.0
    compile_wait: float = 0.0
    load: float = 0.0
    check: float = 0.0
    measure: float = 0.0
    finals: float = 0.0
    total: float = 0.0

    def add(self, verdict: Verdict, spent: float) -> None:
        """Count a trial that took ``spent`` seconds; all of it counts as checking if it was never measured."""
        if verdict.evaluation.measurement is None:
            self.check += spent
            return
        costs = verdict.evaluation.costs
        self.check += costs.check
        self.measure += costs.measure
        self.load += verdict.seconds - costs.check - costs.measure

    @property
    def tuner(self) -> float:
        device = self.load + self.check + self.measure + self.finals
        return max(0.0, self.total - self.prepare - self.compile_wait - device)


@dataclass(slots=True)
class Progress:
    """A run's state after each trial.

    Attributes:
        space: Valid configurations in all.
        known: Results the study had before this run.
        reused: How many of them were taken over from another study.
        seconds, elapsed: Limit and time so far of the whole command, including preparation and finals.
        begun, searched: Elapsed seconds when the search began and when it ended (0 until then).
        compiling: Configurations being compiled now.
        naive: Seconds of the naive baseline on this device, or None until known.
    """

    study: str
    problem: Problem
    environment: Environment
    space: int
    trials: int | None
    seconds: float | None
    precision: str = "fp32"
    known: int = 0
    done: int = 0
    compiling: int = 0
    reused: int = 0
    begun: float = 0.0
    searched: float = 0.0
    elapsed: float = 0.0
    best: Result | None = None
    naive: float | None = None
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def yardstick(self) -> Yardstick:
        """What times are compared with, as far as it is known now."""
        return Yardstick(problem=self.problem, environment=self.environment, precision=self.precision, naive=self.naive)

    @property
    def floor(self) -> Roof | None:
        """The problem's roofline bound at the precision's own peak, or None while the device's ceilings are unknown."""
        return self.yardstick.roof

    def roof_of(self, result: Result) -> Roof | None:
        """Return the roofline bound for this configuration's type of multiplication."""
        return self.yardstick.roof_of(result)

    def share_of_floor(self, result: Result) -> float | None:
        """Return the bound over the time: 1.0 is as fast as the device allows with these operands."""
        return self.yardstick.share_of_roof(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedResult:
    """One row of the final table: a trial and its result, and whether it won or ties with the winner."""

    result: Result
    number: int | None
    winner: bool = False
    tied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """How a run ended; printed, it is the winner in two lines.

    Attributes:
        reason: Why it stopped: ``trials``, ``time``, ``exhausted``, ``interrupted``, ``gain``, ``floor``,
            ``over`` (an earlier run's search was already over), ``storage`` (the store could not be written).
        stopped: Lines on what is left unexplored, and on why the search ended by itself.
        over: The search is over: it ended by itself, or an earlier run's had.
        best: The winner, if there is one, and the fastest others; those within the noise of it are ``tied``.
        finals: Notes on results that did not hold in the finals.
        baselines: Every named baseline that was measured, in the templates' order.
        failed: Results that are not ``ok``: of this run, or of the whole study if this run has no results.
        tolerance: The largest absolute error that a correct kernel may have at this precision.
        unit: The largest error of a plain FP32 kernel on the same inputs.
        agreement: How far the network's classes agree, if the winner's factors are rounded.
        filter_stats: How accurate the resource predictions were.
    """

    progress: Progress
    reason: str
    best: tuple[RankedResult, ...]
    baselines: tuple[Result, ...]
    failed: tuple[Result, ...]
    costs: Costs
    health: tuple[str, ...] = ()
    tolerance: float | None = None
    unit: float | None = None
    agreement: Agreement | None = None
    filter_stats: FilterStats = field(default_factory=FilterStats)
    stopped: tuple[str, ...] = ()
    finals: tuple[str, ...] = ()
    over: bool = False

    @property
    def winner(self) -> Result | None:
        """The verified winner, as the store and every other command names it."""
        return self.best[0].result if self.best and self.best[0].winner else None

    def __str__(self) -> str:
        progress, winner = self.progress, self.winner
        if winner is None or winner.measurement is None:
            seen = ", ".join(f"{count} {outcome}" for outcome, count in progress.outcomes.items())
            return f"{progress.study}: no correct configuration yet ({seen or 'no trials'})"
        faster = f", {progress.naive / winner.seconds:.1f}x naive" if progress.naive else ""
        time = f"{winner.seconds * 1e3:.4g} ms +- {winner.measurement.spread_text}"
        return f"{progress.study}: {time}{faster}\n{winner.configuration}"

    __repr__ = __str__


class Unstored(StorageError):
    """The store could no longer be written before the run's end.

    Attributes:
        report: What the run found, including what is not in the store.
    """

    def __init__(self, why: StorageError, report: Report) -> None:
        super().__init__(str(why))
        self.report = report


def tell_doing(observer: Observer, what: str) -> None:
    """Tell an observer what the run is doing; older observers without ``doing`` are skipped."""
    if doing := getattr(observer, "doing", None):
        doing(what)


class Observer:
    """Shows a run's progress; this base class shows nothing. Override the methods you need."""

    def says(self, line: str) -> None:
        """Show one line of news."""

    def doing(self, what: str) -> None:
        """Show what the run is doing between trials: a few words, or an empty string."""

    def trial(self, result: Result, progress: Progress) -> None:
        """Show that a trial has ended."""
