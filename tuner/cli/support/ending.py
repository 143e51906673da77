"""The last lines of a run: why it ended, and what to do next."""

from __future__ import annotations

from tuner.cli.support.text import plural
from tuner.tuning import Progress, Report

WHY = {
    "trials": "all trials asked for are done; run the same command to continue",
    "floor": "the best has reached the share of the roofline bound that --stop-at asks for",
    "exhausted": "space exhausted: every valid configuration has been tried",
    "storage": "the store could not be written: the same command finds again what it lacks",
    "interrupted": "interrupted: finished trials are stored; run the same command to continue",
}
NOTHING_CONFIRMED = "no winner yet: nothing was confirmed"
GO_ON = "to continue anyway, add --stop off or --trials N to the command"


def counted(progress: Progress) -> str:
    """Return how many trials there were, in a line."""
    reused = f", {progress.reused:,} from other studies" if progress.reused else ""
    space = f" of {progress.space:,} valid configurations" if progress.space else ""
    return f"{plural(progress.done, 'new trial')}{space}, {progress.known:,} known before{reused}"


def ending(report: Report) -> list[str]:
    """Return why a run ended, its last output."""
    lines, why = [*report.stopped], GO_ON if report.over else _why(report)
    if report.best:
        return [*lines, why]
    first = report.reason in ("time", "interrupted")
    return [*lines, _nothing(report), why] if first else [*lines, why, _nothing(report)]


def _why(report: Report) -> str:
    if report.reason != "time":
        return WHY[report.reason]
    seconds = report.progress.seconds or report.progress.elapsed
    when = "ended" if report.progress.done else "began"
    return f"the {seconds:.3g} s were up before the search {when}; run the same command to continue"


def _nothing(report: Report) -> str:
    """Say that there is no winner, and where to look for the cause."""
    tried = report.progress.known + report.progress.done
    if not tried and report.reason == "interrupted":
        return NOTHING_CONFIRMED
    if not tried:
        return "no winner: no trial has ended; give more --time or --trials"
    return f"no winner: {'the one trial' if tried == 1 else f'all {tried:,} trials'} of this study failed"


def ending_before_any() -> list[str]:
    """Return the last lines of a run that was interrupted before its study existed."""
    return [NOTHING_CONFIRMED, WHY["interrupted"]]
