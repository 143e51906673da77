"""Run the finals of a study: confirm the best again and measure them interleaved, until the best five have been."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace

from tuner.bench.protocol import Heat, Task, Verdict
from tuner.devices.compiler import MOST_KILLED
from tuner.errors import Killed, Rejected, StorageError
from tuner.results import Measurement, Result, Telemetry
from tuner.storage import Champion
from tuner.tuning.budget import SearchClock, fitting, longer, pass_seconds, sample_seconds
from tuner.tuning.context import RunContext
from tuner.tuning.delivery import Delivery
from tuner.tuning.disturbance import Surroundings, noise_line, surroundings
from tuner.tuning.finals import FINALISTS, MOST_PASSES, NOISY, complexity, finalists, noise_of, rank
from tuner.tuning.finals_notes import finals_notes
from tuner.tuning.pipeline import POLL_SECONDS, Pipeline
from tuner.tuning.progress import RankedResult, tell_doing
from tuner.tuning.state import RunState
from tuner.tuning.stored import ranked_results

SPARE_SECONDS = 2.0  # the least time left that is worth another pass
MOST_ROUNDS = 300  # most rounds of the pass that uses up the time


@dataclass(slots=True)
class _FinalsSoFar:
    """What the finals of one run have done so far.

    Attributes:
        before: Seconds by key of each finalist, as measured before the finals.
        absent: Keys of those that no longer compile, or could not be measured in time.
        seen: The state of the machine during the last pass.
    """

    before: dict[str, float] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    seen: Surroundings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalsResult:
    """The best five, the winner first if there is one, and notes on results that did not hold."""

    best: tuple[RankedResult, ...]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rematch:
    """The finals of one run."""

    context: RunContext
    state: RunState
    clock: SearchClock
    pipeline: Pipeline
    delivery: Delivery

    def settle(self, passes: int = MOST_PASSES, *, use_all: bool = False) -> FinalsResult:
        """Run the finals; with ``passes=0`` the winner of an earlier run stays.

        If the run is interrupted, the winner is the best of the completed passes, or an earlier run's.

        Args:
            use_all: Spend what is left of the time reserved for the finals on more rounds of the last pass.
        """
        started, held = time.monotonic(), _FinalsSoFar()
        handle, results = self.context.handle, self.state.results
        self.delivery.flush()
        for each in handle.results():  # perhaps of another run
            results.setdefault(each.configuration.key, each)
        champion = handle.champion()
        best = champion.result.configuration.key if champion else ""
        tell_doing(self.context.observer, "finals: the best again, interleaved")
        chosen = self._measure_best(passes, best, held)
        if chosen and noise_of(chosen) > NOISY:
            self._longer(chosen, held)
        if use_all and self.clock.left_for_finals >= SPARE_SECONDS:
            self._more_rounds(chosen, held)
        self.delivery.flush()
        late = best in held.absent - held.before.keys() and self.context.options.seconds is not None
        tied, lines = self._elect(held, defended=late)
        self.state.costs.finals = time.monotonic() - started
        return FinalsResult(best=self._ranked(tied), lines=lines)

    def unsettled(self) -> FinalsResult:
        """Return the best five when the store can no longer be written: its winner, and the fastest others."""
        try:
            return FinalsResult(best=self._ranked())
        except StorageError:
            fastest = self.state.fastest(FINALISTS)
            return FinalsResult(best=tuple(RankedResult(result=each, number=None) for each in fastest))

    def _ranked(self, tied: frozenset[str] = frozenset()) -> tuple[RankedResult, ...]:
        handle = self.context.handle
        return ranked_results(handle.champion(), self.state.results.values(), handle.trial_number, tied)

    def _measure_best(self, most: int, best: str, held: _FinalsSoFar) -> list[Result]:
        """Measure the best in passes until all of them have been; return those of the last pass."""
        results, chosen = self.state.results, list[Result]()
        for _ in range(most):
            done = frozenset(held.before)
            entering = [each for key, each in results.items() if key not in held.absent]
            fits = fitting(finalists(entering, done, best), self.clock.left_for_finals, best)
            if fits is None or done.issuperset(each.configuration.key for each in fits[0]):
                break
            if not self._measure(*fits, held):
                break
            chosen = [results[each.configuration.key] for each in fits[0]]
        return chosen

    def _elect(self, held: _FinalsSoFar, defended: bool) -> tuple[frozenset[str], tuple[str, ...]]:
        """Store the winner; return the keys of those tied with it, and notes on results that did not hold.

        Args:
            defended: The winner so far could not be measured in time; only a result measured beside it may replace it.
        """
        handle, space = self.context.handle, self.context.space
        entered = [self.state.results[key] for key in held.before]
        end = rank(
            [each for each in entered if each.may_win],
            lambda result: complexity(space.template(result.configuration.template), result),
        )
        winner = next(iter(end.ranking), None)
        if defended or another_was_faster(handle.champion(), held.before, winner):
            winner = None
        if winner:
            handle.set_winner(winner.configuration)
        numbers = {each.configuration.key: handle.trial_number(each.configuration) or 0 for each in entered}
        lines = finals_notes(held.before, entered, winner, lambda result: numbers[result.configuration.key])
        return end.tied, (*lines, *self._noise(winner, held.seen))

    def _noise(self, winner: Result | None, seen: Surroundings | None) -> list[str]:
        """Return a warning, with its cause, if the winner's time is uncertain."""
        spread = noise_of([winner]) if winner else 0.0
        if seen and spread > NOISY and not self.context.interrupt:
            seen = replace(seen, throttle=self.context.worker.telemetry().throttle)
        return list(filter(None, [noise_line(spread, seen)]))

    def _longer(self, chosen: Sequence[Result], held: _FinalsSoFar) -> None:
        """Measure the same once more with more rounds, as the time allows, because the noise is high."""
        chosen, left = [each for each in chosen if each.ok], self.clock.left_for_finals
        if chosen and pass_seconds(chosen, Heat()) <= left:
            self._measure(chosen, longer(left), held)

    def _more_rounds(self, chosen: Sequence[Result], held: _FinalsSoFar) -> None:
        """Measure the same once more in as many rounds as the time left allows, for a more certain winner."""
        chosen = [self.state.results[each.configuration.key] for each in chosen]
        if more := more_rounds(chosen, self.clock.left_for_finals):
            self._measure(*more, held)

    def _measure(self, chosen: Sequence[Result], limits: Heat, held: _FinalsSoFar) -> bool:
        """Measure ``chosen`` interleaved and take in the new results; False if the worker could not."""
        context, worker = self.context, self.context.worker
        tasks = {result.configuration.key: task for result in chosen if (task := self.task_of(result)) is not None}
        if context.interrupt:
            return False
        held.absent |= {result.configuration.key for result in chosen} - tasks.keys()
        chosen = [result for result in chosen if result.configuration.key in tasks]
        canary, begun = context.canary.canary(), time.time()
        held.seen = surroundings(context.canary.before, canary)
        ends = worker.finals(list(tasks.values()), limits, context.interrupt) if tasks else []
        if not ends:
            if not context.interrupt:
                context.observer.says("the finals could not be measured; the table shows the search's own measurements")
            return False
        for result, end in zip(chosen, ends, strict=True):
            if end == ():
                held.absent.add(result.configuration.key)
                continue
            held.before.setdefault(result.configuration.key, result.seconds)
            self.delivery.take_in(replace(_after(result, end, canary, begun), started=begun))
        return True

    def task_of(self, result: Result, tries: int = MOST_KILLED) -> Task | None:
        """Return the task that measures a result again, or None if it no longer compiles, or not in time."""
        candidate, budget = self.pipeline.candidate(result.configuration, baseline="final"), self.context.budget
        while not self.context.interrupt and budget.left > 0:
            if wait([candidate.future], timeout=min(POLL_SECONDS, budget.left)).done:
                break
        if not candidate.future.done():
            return None
        try:
            built = self.pipeline.built(candidate)
        except Killed:
            return self.task_of(result, tries - 1) if tries > 1 else None
        except Rejected:
            return None
        best = self.state.progress.best
        return built.task(incumbent=best.seconds if best else None)


def more_rounds(chosen: Sequence[Result], left: float) -> tuple[Sequence[Result], Heat] | None:
    """Return what to measure once more and for how long, to use all of the time left; None if it is too short.

    Args:
        left: Seconds.
    """
    chosen = [each for each in chosen if each.ok]
    last = sum(map(sample_seconds, chosen))  # the round under way when the limit is reached
    if not chosen or pass_seconds(chosen, Heat()) > left:
        return None
    return chosen, Heat(most=MOST_ROUNDS, seconds=left, limit=left - last)


def another_was_faster(champion: Champion | None, entered: Mapping[str, float], winner: Result | None) -> bool:
    """Whether another run stored a faster winner during these finals.

    Args:
        champion: The winner in the store now.
        entered: Seconds by key of those in these finals.
        winner: The winner of these finals.
    """
    if champion is None or champion.result.configuration.key in entered or winner is None:
        return False
    return champion.result.seconds < winner.seconds


def _after(result: Result, end: tuple[float, ...] | Verdict, canary: float | None, begun: float) -> Result:
    if isinstance(end, Verdict):
        failed = replace(
            result.evaluation, outcome=end.outcome, text=end.evaluation.text, measurement=None, confirmed=False
        )
        return replace(result, evaluation=failed, settled=0.0)
    telemetry = result.measurement.telemetry if result.measurement else None
    measured = Measurement(samples=end, canary=canary, telemetry=telemetry or Telemetry())
    confirmed = replace(result.evaluation, measurement=measured, confirmed=True)
    searched = result.searched if result.settled else result.seconds
    return replace(result, evaluation=confirmed, reused=False, settled=begun, searched=searched)
