"""The printed end of a run: best five, named baselines, failures, costs, next commands, why it ended."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.bench.roofline import Yardstick
from tuner.cli.support.ending import NOTHING_CONFIRMED, counted, ending
from tuner.cli.support.failures import print_failures
from tuner.cli.support.folding import echo, echo_command
from tuner.cli.support.rows import COLUMNS, legend, mark, roof_line, speed
from tuner.cli.support.text import echo_wrapped, plural, table
from tuner.errors import TunerError
from tuner.export.export import header_name
from tuner.results import Result
from tuner.storage import Store
from tuner.storage.commands import command
from tuner.tuning import Costs, RankedResult, Report, RunOptions
from tuner.tuning.finals import NOISY, noise_of
from tuner.tuning.resource_filter import IDLE, LEAST_WARPS, SPILLS, FilterStats

NOT_SETTLED = "no verified winner yet; run the same command again to continue"


def print_report(report: Report, asked: RunOptions) -> None:
    """Print what a run found, 80 columns wide."""
    progress = report.progress
    echo_wrapped(counted(progress))
    if report.best:
        _print_best(report)
    if report.baselines:
        _print_baselines(report.baselines, progress.yardstick)
    print_failures(report.failed)
    for line in filter_lines(report.filter_stats, report.winner):
        echo_wrapped(line)
    for line in report.health:
        echo_wrapped(line)
    if report.costs.total:
        echo_wrapped(costs_line(report.costs, progress.done))
    _print_next(report, asked)


def print_ending(report: Report) -> None:
    """Print the last lines of a run: why it ended."""
    echo()
    for line in ending(report):
        echo_wrapped(line)


def _print_best(report: Report) -> None:
    progress = report.progress
    echo()
    title = "best" if report.winner else "fastest so far"
    rows = [_row(standing, report.winner, progress.yardstick) for standing in report.best]
    table(title, COLUMNS, rows, left=("template",))
    winner = report.best[0].result
    tied = [standing for standing in report.best if standing.tied and standing.result is not winner]
    if tied and report.winner:
        first = "the fastest median" if noise_of([winner]) > NOISY else "the simplest configuration"
        echo_wrapped(f"tie: {plural(len(tied), 'other')} within the noise; {first} is named first")
    for line in filter(None, (legend([row[0] for row in rows]), *report.finals)):
        echo_wrapped(line)
    if not report.winner:
        echo_wrapped(NOTHING_CONFIRMED if report.reason == "interrupted" else NOT_SETTLED)
    given = " ".join(f"{name}={value}" for name, value in winner.configuration.values)
    echo()
    echo_wrapped(f"{winner.configuration.template}: {given}")
    if winner.max_error is not None:
        error = error_line(winner.max_error, report.tolerance, report.unit)
        echo_wrapped(f"{error}; {progress.problem.output.size:,} elements checked")
    if winner.text:
        echo_wrapped(winner.text.splitlines()[0])
    if report.agreement:
        echo_wrapped(str(report.agreement))
    if line := roof_line(progress.yardstick, winner):
        echo_wrapped(line)
    echo()


def error_line(error: float, tolerance: float | None, unit: float | None) -> str:
    """Return a kernel's largest error and what is allowed, relative to a plain FP32 kernel's error if known."""
    if not tolerance or not unit:
        return f"largest error {error:.2g}" + (f", allowed {tolerance:.2g}" if tolerance else "")
    return (
        f"largest error {error:.2g}: {error / unit:.2g} times that of a plain FP32 kernel; "
        f"{tolerance / unit:.2g} times is allowed"
    )


def _row(standing: RankedResult, winner: Result | None, yardstick: Yardstick) -> tuple[str, ...]:
    result, number = standing.result, standing.number
    sign = mark(result, winner, is_winner=standing.winner, tied=standing.tied)
    return (f"{sign}{'-' if number is None else number}", *speed(result, yardstick), result.configuration.template)


def _print_baselines(baselines: Sequence[Result], yardstick: Yardstick) -> None:
    rows = [
        (*(speed(result, yardstick) if result.ok else (result.outcome, "", "", "", "")), result.baseline)
        for result in baselines
    ]
    table("named baselines", (*COLUMNS[1:6], "baseline"), rows, left=("baseline",))


def filter_lines(seen: FilterStats, winner: Result | None) -> list[str]:
    """Return what was skipped before compiling and how often wrongly; nothing without predictions."""
    lines = []
    if seen.errors:
        lines.append(
            f"register prediction, {plural(len(seen.errors), 'kernel')}: median error {seen.median_error:.0f}, "
            f"90th percentile {seen.error_of_90_percent:.0f}; warps right in {seen.warps_right / len(seen.errors):.0%}"
        )
    if any(seen.dropped.values()) or seen.tried:
        tried = f"; {seen.tried} compiled anyway as an audit, {seen.wrong} mispredicted" if seen.tried else ""
        if winner and seen.fastest < float("inf"):
            tried += f", the fastest {seen.fastest / winner.seconds:.2f}x the best"
        lines.append(
            f"skipped before compiling: {seen.dropped[SPILLS]:,} that would spill, {seen.dropped[IDLE]:,} with under "
            f"{LEAST_WARPS} warps{tried}"
        )
    return lines


def costs_line(costs: Costs, trials: int) -> str:
    """Return where the time went, in one line."""
    each = f" ({1e3 * costs.tuner / trials:.1f} ms a trial)" if trials else ""
    return (
        f"{costs.total:.1f} s: {costs.prepare:.1f} prepare, {costs.compile_wait:.1f} compile wait, "
        f"{costs.load:.1f} load, {costs.check:.1f} check, {costs.measure:.1f} measure, {costs.finals:.1f} finals, "
        f"{costs.tuner:.1f} tuner{each}"
    )


def _print_next(report: Report, asked: RunOptions) -> None:
    study = _short(report.progress.study, asked.storage)
    echo("\nnext:")
    shown = ("show", study) if report.best else ("show", study, "--failures")
    exported = ("export", study, "-o", header_name(asked.problem.name))
    for words in (shown, *((exported,) if report.winner else ()), ("dashboard",)):
        echo_command(f"  {command(*words, where=asked.storage)}")


def _short(study: str, storage: str) -> str:
    """Return a brief name of a study; its whole name if the store is gone."""
    try:
        with Store.open(storage, create=False) as store:
            return store.find_study(study).short
    except TunerError:
        return study
