"""A run's report: what it found, what that cost, and what to know of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tuner.bench.telemetry import warnings
from tuner.problems.whole import Agreement
from tuner.tuning.progress import Report, Standing
from tuner.tuning.proposals import measured

if TYPE_CHECKING:
    from tuner.tuning.run import Run


def report_of(run: Run, reason: str, best: tuple[Standing, ...], agreement: Agreement | None, started: float) -> Report:
    """Return how a run ended.

    Args:
        started: When it began, by ``time.monotonic``.
    """
    run.costs.compile_wait = run.pipeline.waited
    run.costs.total = time.monotonic() - started
    return Report(
        progress=run.progress,
        reason=reason,
        best=best,
        baselines=measured(run.space, run.ledger.results.values()),
        failed=tuple(each for each in (run.ledger.new if best else run.ledger.results).values() if not each.ok),
        costs=run.costs,
        health=(*run.canary.lines, *warnings(run.ledger.new.values())),
        tolerance=run.facts.tolerance,
        unit=run.facts.unit,
        agreement=agreement,
        finals=run.finals,
        filter_stats=run.resource_filter.stats,
        stopped=run.stopping.lines(run.ledger.results),
        over=run.stopping.stop is not None and reason != "interrupted",
    )
