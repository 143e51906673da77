"""Run the finals of a study: confirm and measure the best again, interleaved, until the best five have been."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tuner.bench.protocol import Heat, Task, Verdict
from tuner.devices.compiler import MOST_KILLED
from tuner.errors import Killed, Rejected, StorageError
from tuner.results import Measurement, Result, Telemetry
from tuner.storage import view_of
from tuner.tuning.budget import fitting, heat_seconds, longer, sample_seconds
from tuner.tuning.disturbance import Surroundings, noise_line, surroundings
from tuner.tuning.finals import FINALISTS, MOST_HEATS, NOISY, complexity, finalists, noise_of, rank
from tuner.tuning.pipeline import POLL_SECONDS
from tuner.tuning.progress import Standing, tell_doing
from tuner.tuning.stored import standings
from tuner.tuning.unheld import unheld

if TYPE_CHECKING:
    from tuner.tuning.run import Run

SPARE_SECONDS = 2.0  # that are not worth another heat
MOST_ROUNDS = 300  # of one that uses up the time


@dataclass(slots=True)
class _Finals:
    """What the finals of one run have done so far.

    Attributes:
        before: Seconds by key, of those that were in them, before they were.
        absent: Keys of those that do not compile any more, or could not be measured in time.
        tied: Keys of those within the noise of the winner.
        seen: The machine as the last heat found it.
    """

    before: dict[str, float] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    tied: frozenset[str] = frozenset()
    seen: Surroundings | None = None


def settle(run: Run, heats: int = MOST_HEATS, *, use_all: bool = False) -> tuple[Standing, ...]:
    """Hold the finals and return the best five, the winner first; with ``heats=0`` as an earlier run settled it.

    Once the run is interrupted, the winner is the best of the heats that were over, or an earlier run's.

    Args:
        use_all: Time that was kept for the finals and is left goes to more rounds of the last heat.
    """
    started, finals = time.monotonic(), _Finals()
    run.writer.flush()
    for each in run.handle.results():  # another run's, perhaps
        run.ledger.results.setdefault(each.configuration.key, each)
    champion = run.handle.champion()
    best = champion.result.configuration.key if champion else ""
    tell_doing(run.observer, "finals: the best again, interleaved")
    chosen: Sequence[Result] = ()
    for _ in range(heats):
        held = frozenset(finals.before)
        entering = [each for key, each in run.ledger.results.items() if key not in finals.absent]
        wanted = finalists(entering, held, best)
        fits = fitting(wanted, run.time_for_finals, best)
        if fits is None or held.issuperset(each.configuration.key for each in fits[0]) or not _heat(run, *fits, finals):
            break
        chosen = [run.ledger.results[each.configuration.key] for each in fits[0]]
    if chosen and noise_of(chosen) > NOISY:
        _longer(run, chosen, finals)
    if use_all and run.time_for_finals >= SPARE_SECONDS:
        _more_rounds(run, chosen, finals)
    run.writer.flush()
    late = best in finals.absent - finals.before.keys() and run.options.seconds is not None
    _elect(run, finals, defended=late)
    run.costs.finals = time.monotonic() - started
    return standings(view_of(run.handle), run.ledger.results.values(), finals.tied)


def unsettled(run: Run) -> tuple[Standing, ...]:
    """Return the best five where the store takes no more: what it names the winner, and what was found beside that."""
    found = run.ledger.results.values()
    try:
        return standings(view_of(run.handle), found)
    except StorageError:
        fastest = sorted((each for each in found if each.ok), key=lambda result: result.seconds)
        return tuple(Standing(result=each, number=None) for each in fastest[:FINALISTS])


def _elect(run: Run, finals: _Finals, defended: bool) -> None:
    """Let the store know who won, and say who did not hold.

    Args:
        defended: The winner so far could not be measured in time: nothing that was not measured beside it deposes it.
    """
    entered = [run.ledger.results[key] for key in finals.before]
    end = rank(
        [each for each in entered if each.may_win],
        lambda result: complexity(run.space.template(result.configuration.template), result),
    )
    finals.tied = end.tied
    defended = defended or _another_was_faster(run, finals, end.ranking)
    if end.ranking and not defended:
        run.handle.set_winner(end.ranking[0].configuration)
    numbers = {each.configuration.key: run.handle.trial_number(each.configuration) or 0 for each in entered}
    winner = end.ranking[0] if end.ranking and not defended else None
    lines = unheld(finals.before, entered, winner, lambda result: numbers[result.configuration.key])
    run.finals = (*lines, *_noise(run, winner, finals.seen))


def _another_was_faster(run: Run, finals: _Finals, ranking: Sequence[Result]) -> bool:
    """Whether another run settled a faster winner while these finals were held."""
    champion = run.handle.champion()
    if champion is None or champion.result.configuration.key in finals.before or not ranking:
        return False
    return champion.result.seconds < ranking[0].seconds


def _noise(run: Run, winner: Result | None, seen: Surroundings | None) -> list[str]:
    """Return a warning with its cause where the winner's time is not known well."""
    spread = noise_of([winner]) if winner else 0.0
    if seen and spread > NOISY and not run.interrupt:
        seen = replace(seen, throttle=run.worker.telemetry().throttle)
    return list(filter(None, [noise_line(spread, seen)]))


def _longer(run: Run, chosen: Sequence[Result], finals: _Finals) -> None:
    """Measure the same once more with more rounds, as far as the time allows: the noise is high."""
    chosen, left = [each for each in chosen if each.ok], run.time_for_finals
    if chosen and heat_seconds(chosen, Heat()) <= left:
        _heat(run, chosen, longer(left), finals)


def _more_rounds(run: Run, chosen: Sequence[Result], finals: _Finals) -> None:
    """Measure the same once more, in as many rounds as the time left allows: the winner is known the better."""
    chosen, left = [run.ledger.results[each.configuration.key] for each in chosen], run.time_for_finals
    chosen = [each for each in chosen if each.ok]
    last = sum(map(sample_seconds, chosen))  # the round that is under way when the limit comes
    if chosen and heat_seconds(chosen, Heat()) <= left:
        _heat(run, chosen, Heat(most=MOST_ROUNDS, seconds=left, limit=left - last), finals)


def _heat(run: Run, chosen: Sequence[Result], heat: Heat, finals: _Finals) -> bool:
    """Measure ``chosen`` interleaved and take their new results in; False when the worker could not."""
    tasks = {result.configuration.key: task for result in chosen if (task := task_of(run, result)) is not None}
    if run.interrupt:
        return False
    finals.absent |= {result.configuration.key for result in chosen} - tasks.keys()
    chosen = [result for result in chosen if result.configuration.key in tasks]
    canary, begun = run.canary.canary(), time.time()
    finals.seen = surroundings(run.canary.before, canary)
    ends = run.worker.finals(list(tasks.values()), heat) if tasks else []
    if run.interrupt and not ends:
        return False
    if not ends:
        run.observer.says("the finals could not be measured; the table shows the search's own measurements")
        return False
    for result, end in zip(chosen, ends, strict=True):
        if end == ():
            finals.absent.add(result.configuration.key)
            continue
        finals.before.setdefault(result.configuration.key, result.seconds)
        run.take_in(replace(_after(result, end, canary, begun), started=begun))
    return True


def task_of(run: Run, result: Result, tries: int = MOST_KILLED) -> Task | None:
    """Return the task that measures a result again, or None if it does not compile any more, or not in time."""
    candidate = run.pipeline.candidate(result.configuration, baseline="final")
    while not run.interrupt and run.budget.left > 0:
        if wait([candidate.future], timeout=min(POLL_SECONDS, run.budget.left)).done:
            break
    if not candidate.future.done():
        return None
    try:
        compiled = run.pipeline.compiler.result(candidate.future)
    except Killed:
        return task_of(run, result, tries - 1) if tries > 1 else None
    except Rejected:
        return None
    return run.task(candidate, compiled.binary)


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
