"""Run the finals of a study: confirm and measure the best again, interleaved, until the best five have been."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tuner.errors import Rejected
from tuner.protocol import Task, Verdict
from tuner.results import Measurement, Result, Telemetry
from tuner.tuning.finals import FINALISTS, MOST_HEATS, ROUNDS, SECONDS, complexity, finalists, rank
from tuner.tuning.progress import Standing
from tuner.tuning.unheld import unheld

if TYPE_CHECKING:
    from tuner.storage import Champion
    from tuner.tuning.run import Run


@dataclass(slots=True)
class _Finals:
    """What the finals of one run have done so far.

    Attributes:
        before: Seconds by key, of those that were in them, before they were.
        absent: Keys of those that do not compile any more.
        tied: Keys of those within the noise of the winner.
    """

    before: dict[str, float] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    tied: frozenset[str] = frozenset()


def settle(run: Run, heats: int = MOST_HEATS) -> tuple[Standing, ...]:
    """Hold the finals and return the best five, the winner first; with ``heats=0`` as an earlier run settled it."""
    started, finals = time.monotonic(), _Finals()
    champion = run.handle.champion()
    if champion:  # another run's, perhaps
        run.ledger.results.setdefault(champion.result.configuration.key, champion.result)
    for _ in range(heats):
        held = frozenset(finals.before)
        best = champion.result.configuration.key if champion else ""
        entering = [each for key, each in run.ledger.results.items() if key not in finals.absent]
        chosen = finalists(entering, held, best)
        if not chosen or not _heat(run, chosen, finals):
            break
    run.writer.flush()
    champion = _elect(run, finals)
    run.costs.finals = time.monotonic() - started
    return _standings(run, champion, finals.tied)


def _elect(run: Run, finals: _Finals) -> Champion | None:
    """Let the store know who won, and say who did not hold; return the winner as every command names it."""
    entered = [run.ledger.results[key] for key in finals.before]
    end = rank(
        [each for each in entered if each.may_win],
        lambda result: complexity(run.space.template(result.configuration.template), result),
    )
    finals.tied = end.tied
    if end.ranking:
        run.handle.set_winner(end.ranking[0].configuration)
    numbers = {each.configuration.key: run.handle.trial_number(each.configuration) or 0 for each in entered}
    winner = end.ranking[0] if end.ranking else None
    run.finals = tuple(unheld(finals.before, entered, winner, lambda result: numbers[result.configuration.key]))
    return run.handle.champion()


def _standings(run: Run, champion: Champion | None, tied: frozenset[str]) -> tuple[Standing, ...]:
    """Return the winner, if there is one, and the fastest others."""
    best = champion.result.configuration.key if champion else ""
    others = [each for key, each in run.ledger.results.items() if each.ok and key != best]
    others = sorted(others, key=lambda result: result.seconds)[: FINALISTS - bool(champion)]
    numbered = [(each, run.handle.trial_number(each.configuration)) for each in others]
    standings = tuple(
        Standing(result=each, number=number, tied=each.configuration.key in tied) for each, number in numbered
    )
    if champion is None:
        return standings
    return (Standing(result=champion.result, number=champion.trial, winner=True, tied=best in tied), *standings)


def _heat(run: Run, chosen: Sequence[Result], finals: _Finals) -> bool:
    """Measure ``chosen`` interleaved and take their new results in; False when the worker could not."""
    tasks = {result.configuration.key: task for result in chosen if (task := task_of(run, result)) is not None}
    finals.absent |= {result.configuration.key for result in chosen} - tasks.keys()
    chosen = [result for result in chosen if result.configuration.key in tasks]
    canary, begun = run.health.canary(), time.time()
    ends = run.worker.finals(list(tasks.values()), ROUNDS, SECONDS) if tasks else []
    if not ends:
        run.observer.says("the finals could not be measured; the table shows the search's own measurements")
        return False
    for result, end in zip(chosen, ends, strict=True):
        finals.before.setdefault(result.configuration.key, result.seconds)
        run.take_in(replace(_after(result, end, canary, begun), started=begun))
    return True


def task_of(run: Run, result: Result) -> Task | None:
    """Return the task that measures a result again, or None if it does not compile any more."""
    candidate = run.pipeline.candidate(result.configuration, baseline="final")
    try:
        compiled = run.pipeline.compiler.result(candidate.future)
    except Rejected:
        return None
    return run.task(candidate, compiled.binary)


def _after(result: Result, end: tuple[float, ...] | Verdict, canary: float | None, begun: float) -> Result:
    if isinstance(end, Verdict):
        return replace(result, outcome=end.outcome, text=end.text, measurement=None, confirmed=False, settled=0.0)
    telemetry = result.measurement.telemetry if result.measurement else None
    measured = Measurement(samples=end, canary=canary, telemetry=telemetry or Telemetry())
    searched = result.searched if result.settled else result.seconds
    return replace(result, measurement=measured, confirmed=True, reused=False, settled=begun, searched=searched)
