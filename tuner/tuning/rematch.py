"""Run the finals of a study: confirm and measure the best again, interleaved, until the best five have been."""

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
from tuner.tuning.budget import SearchClock, fitting, heat_seconds, longer, sample_seconds
from tuner.tuning.context import RunContext
from tuner.tuning.delivery import Delivery
from tuner.tuning.disturbance import Surroundings, noise_line, surroundings
from tuner.tuning.finals import FINALISTS, MOST_HEATS, NOISY, complexity, finalists, noise_of, rank
from tuner.tuning.ledger import Ledger
from tuner.tuning.pipeline import POLL_SECONDS, Pipeline
from tuner.tuning.progress import Standing, tell_doing
from tuner.tuning.stored import standings
from tuner.tuning.unheld import unheld

SPARE_SECONDS = 2.0  # that are not worth another heat
MOST_ROUNDS = 300  # of one that uses up the time


@dataclass(slots=True)
class _Heats:
    """What the finals of one run have done so far.

    Attributes:
        before: Seconds by key, of those that were in them, before they were.
        absent: Keys of those that do not compile any more, or could not be measured in time.
        seen: The machine as the last heat found it.
    """

    before: dict[str, float] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    seen: Surroundings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The best five, the winner first if there is one, and lines on what did not hold."""

    best: tuple[Standing, ...]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rematch:
    """The finals of one run."""

    context: RunContext
    ledger: Ledger
    clock: SearchClock
    pipeline: Pipeline
    delivery: Delivery

    def settle(self, heats: int = MOST_HEATS, *, use_all: bool = False) -> Settled:
        """Hold the finals; with ``heats=0`` the winner is as an earlier run settled it.

        Once the run is interrupted, the winner is the best of the heats that were over, or an earlier run's.

        Args:
            use_all: Time that was kept for the finals and is left goes to more rounds of the last heat.
        """
        started, held = time.monotonic(), _Heats()
        handle, results = self.context.handle, self.ledger.results
        self.delivery.flush()
        for each in handle.results():  # another run's, perhaps
            results.setdefault(each.configuration.key, each)
        champion = handle.champion()
        best = champion.result.configuration.key if champion else ""
        tell_doing(self.context.observer, "finals: the best again, interleaved")
        chosen = self._heats(heats, best, held)
        if chosen and noise_of(chosen) > NOISY:
            self._longer(chosen, held)
        if use_all and self.clock.left_for_finals >= SPARE_SECONDS:
            self._more_rounds(chosen, held)
        self.delivery.flush()
        late = best in held.absent - held.before.keys() and self.context.options.seconds is not None
        tied, lines = self._elect(held, defended=late)
        self.ledger.costs.finals = time.monotonic() - started
        return Settled(best=self._standings(tied), lines=lines)

    def unsettled(self) -> Settled:
        """Return the best five where the store takes no more: whom it names the winner, and what was found besides."""
        try:
            return Settled(best=self._standings())
        except StorageError:
            fastest = self.ledger.fastest(FINALISTS)
            return Settled(best=tuple(Standing(result=each, number=None) for each in fastest))

    def _standings(self, tied: frozenset[str] = frozenset()) -> tuple[Standing, ...]:
        handle = self.context.handle
        return standings(handle.champion(), self.ledger.results.values(), handle.trial_number, tied)

    def _heats(self, most: int, best: str, held: _Heats) -> list[Result]:
        """Measure the best until all of them were; return those of the last heat."""
        results, chosen = self.ledger.results, list[Result]()
        for _ in range(most):
            done = frozenset(held.before)
            entering = [each for key, each in results.items() if key not in held.absent]
            fits = fitting(finalists(entering, done, best), self.clock.left_for_finals, best)
            if fits is None or done.issuperset(each.configuration.key for each in fits[0]):
                break
            if not self._heat(*fits, held):
                break
            chosen = [results[each.configuration.key] for each in fits[0]]
        return chosen

    def _elect(self, held: _Heats, defended: bool) -> tuple[frozenset[str], tuple[str, ...]]:
        """Let the store know who won; return the keys of those tied with it, and who did not hold.

        Args:
            defended: The winner so far could not be measured in time: nothing that was not measured beside it deposes
                it.
        """
        handle, space = self.context.handle, self.context.space
        entered = [self.ledger.results[key] for key in held.before]
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
        lines = unheld(held.before, entered, winner, lambda result: numbers[result.configuration.key])
        return end.tied, (*lines, *self._noise(winner, held.seen))

    def _noise(self, winner: Result | None, seen: Surroundings | None) -> list[str]:
        """Return a warning with its cause where the winner's time is not known well."""
        spread = noise_of([winner]) if winner else 0.0
        if seen and spread > NOISY and not self.context.interrupt:
            seen = replace(seen, throttle=self.context.worker.telemetry().throttle)
        return list(filter(None, [noise_line(spread, seen)]))

    def _longer(self, chosen: Sequence[Result], held: _Heats) -> None:
        """Measure the same once more with more rounds, as far as the time allows: the noise is high."""
        chosen, left = [each for each in chosen if each.ok], self.clock.left_for_finals
        if chosen and heat_seconds(chosen, Heat()) <= left:
            self._heat(chosen, longer(left), held)

    def _more_rounds(self, chosen: Sequence[Result], held: _Heats) -> None:
        """Measure the same once more, in as many rounds as the time left allows: the winner is known the better."""
        chosen = [self.ledger.results[each.configuration.key] for each in chosen]
        if more := more_rounds(chosen, self.clock.left_for_finals):
            self._heat(*more, held)

    def _heat(self, chosen: Sequence[Result], heat: Heat, held: _Heats) -> bool:
        """Measure ``chosen`` interleaved and take their new results in; False when the worker could not."""
        context, worker = self.context, self.context.worker
        tasks = {result.configuration.key: task for result in chosen if (task := self.task_of(result)) is not None}
        if context.interrupt:
            return False
        held.absent |= {result.configuration.key for result in chosen} - tasks.keys()
        chosen = [result for result in chosen if result.configuration.key in tasks]
        canary, begun = context.canary.canary(), time.time()
        held.seen = surroundings(context.canary.before, canary)
        ends = worker.finals(list(tasks.values()), heat, context.interrupt) if tasks else []
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
        """Return the task that measures a result again, or None if it does not compile any more, or not in time."""
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
        best = self.ledger.progress.best
        return built.task(incumbent=best.seconds if best else None)


def more_rounds(chosen: Sequence[Result], left: float) -> tuple[Sequence[Result], Heat] | None:
    """Return whom to measure once more, and how, in all of the time that is left; None where it is too short.

    Args:
        left: Seconds.
    """
    chosen = [each for each in chosen if each.ok]
    last = sum(map(sample_seconds, chosen))  # the round that is under way when the limit comes
    if not chosen or heat_seconds(chosen, Heat()) > left:
        return None
    return chosen, Heat(most=MOST_ROUNDS, seconds=left, limit=left - last)


def another_was_faster(champion: Champion | None, entered: Mapping[str, float], winner: Result | None) -> bool:
    """Whether another run settled a faster winner while these finals were held.

    Args:
        champion: Whom the store names the winner now.
        entered: By key, those that were in these finals.
        winner: Theirs.
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
