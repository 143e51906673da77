"""Run the finals of a study: confirm and measure the best again, interleaved, until the best five have been."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.errors import Rejected
from tuner.protocol import Task, Verdict
from tuner.results import Measurement, Result, Telemetry
from tuner.tuning.finals import FINALISTS, MOST_HEATS, ROUNDS, SECONDS, complexity, finalists, rank
from tuner.tuning.progress import Standing

if TYPE_CHECKING:
    from tuner.tuning.run import Run


def settle(run: Run, heats: int = MOST_HEATS) -> tuple[Standing, ...]:
    """Return the best five, the winner first; with ``heats=0`` as measured in the search."""
    started = time.monotonic()
    settled: frozenset[str] = frozenset()
    for _ in range(heats):
        chosen = finalists(list(run.ledger.results.values()), settled)
        if not chosen or not _heat(run, chosen):
            break
        settled |= {result.configuration.key for result in chosen}
    run.writer.flush()
    run.costs.finals = time.monotonic() - started
    return _standings(run, settled)


def _standings(run: Run, settled: frozenset[str]) -> tuple[Standing, ...]:
    ok = sorted((each for each in run.ledger.results.values() if each.ok), key=lambda result: result.seconds)[
        :FINALISTS
    ]
    end = rank(ok, lambda result: complexity(run.space.template(result.configuration.template), result))
    if not settled:
        end = replace(end, ranking=tuple(ok), tied=frozenset())
    elif end.ranking:
        run.handle.set_winner(end.ranking[0].configuration)
    return tuple(
        Standing(
            result=result,
            number=run.handle.trial_number(result.configuration),
            winner=place == 0 and bool(settled),
            tied=result.configuration.key in end.tied,
        )
        for place, result in enumerate(end.ranking)
    )


def _heat(run: Run, chosen: Sequence[Result]) -> bool:
    """Measure ``chosen`` interleaved and take their new results in; False when the worker could not."""
    tasks = [task for result in chosen if (task := task_of(run, result)) is not None]
    if len(tasks) != len(chosen):
        return False
    canary, begun = run.health.canary(), time.time()
    ends = run.worker.finals(tasks, ROUNDS, SECONDS)
    if not ends:
        run.observer.says("the finals could not be measured; the table shows the search's own measurements")
        return False
    for result, end in zip(chosen, ends, strict=True):
        run.take_in(replace(_after(result, end, canary), started=begun))
    return True


def task_of(run: Run, result: Result) -> Task | None:
    """Return the task that measures a result again, or None if it does not compile any more."""
    candidate = run.pipeline.candidate(result.configuration, baseline="final")
    try:
        compiled = run.pipeline.compiler.result(candidate.future)
    except Rejected:
        return None
    return run.task(candidate, compiled.binary)


def _after(result: Result, end: tuple[float, ...] | Verdict, canary: float | None) -> Result:
    if isinstance(end, Verdict):
        return replace(result, outcome=end.outcome, text=end.text, measurement=None, confirmed=False)
    telemetry = result.measurement.telemetry if result.measurement else None
    measured = Measurement(samples=end, canary=canary, telemetry=telemetry or Telemetry())
    return replace(result, measurement=measured, confirmed=True, reused=False)
