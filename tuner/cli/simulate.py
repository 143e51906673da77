"""``tune simulate``: search recorded spaces again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import options
from tuner.cli.support.folding import echo, is_terminal, width
from tuner.cli.support.text import print_json, table
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.recordings.scores import Curve, Summary

SPARE = (
    "worst",
    "ms",
    "at 20",
    "at 200",
    "found",
    "at 100",
    "at 50",
)  # columns left out on a narrow terminal, in this order


@click.command("simulate", short_help="Search recorded spaces again, and count evaluations.")
@click.argument("spaces", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SPACE...")
@click.option("--sampler", default=None, metavar="NAME", help="surrogate, tpe, random, grid or anneal.")
@click.option("--trials", default=200, show_default=True, metavar="N", help="Evaluations of each search at most.")
@click.option("--seeds", default=5, show_default=True, metavar="K", help="Searches of each space: seeds 0 to K-1.")
@click.option("--batch", default=1, show_default=True, metavar="N", help="Proposals evaluated at once.")
@click.option(
    "--warm-start", "source", type=click.Path(path_type=Path), metavar="SPACE", help="Start from another's results."
)
@click.option("--noise", is_flag=True, help="Give the search noisy times, as recorded; score the true ones.")
@click.option("--compile-times", is_flag=True, help="Also print the seconds of compiling to within 1%.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curves as .svg or .png.")
@options.as_json
def command(spaces: tuple[Path, ...], plot: Path | None, as_json: bool, compile_times: bool, **given: Any) -> None:
    """Replay recorded spaces, and count the evaluations a sampler needs.

    A SPACE is a .csv or .csv.gz that `tune record` wrote, a Kernel Tuner cache file, or a T4 results file.
    """
    from tuner.recordings.simulate import Plan, follow
    from tuner.recordings.space import load_recorded
    from tuner.report.pictures import check_picture
    from tuner.search.samplers.factory import SAMPLERS

    if plot is not None:
        check_picture(plot)
    file = given.pop("source")
    source = None if file is None else load_recorded(file)
    plan = Plan(sampler=given.pop("sampler") or SAMPLERS[0], source=source, **given)
    summary, curves = follow(plan, [load_recorded(path) for path in spaces])
    if plot is not None:
        title = f"{plan.sampler}: best so far over optimum, median and quartiles of {summary.seeds} seeds"
        _write_plot(plot, title, {score.space: runs for score, runs in zip(summary.scores, curves, strict=True)})
    if as_json:
        _print_summary(summary)
        return
    _print_scores(summary, compile_times)
    _print_curves(summary, curves)
    if plot is not None:
        echo(f"\nwrote {plot}")


def _write_plot(path: Path, title: str, curves: Mapping[str, Sequence[Curve]]) -> None:
    from tuner.report.curves import curve_figure
    from tuner.report.pictures import write_picture

    try:
        write_picture(path, curve_figure(title, curves))
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror}; give a file in a folder you may write") from None


def _print_summary(summary: Summary) -> None:
    import dataclasses

    means = {"to_5": summary.to_5, "to_1": summary.to_1, "ratios": summary.ratios}
    print_json({**dataclasses.asdict(summary), "geometric_mean": means})


def _print_scores(summary: Summary, compile_times: bool) -> None:
    """Print the scores, without some columns on a narrow terminal; a pipe or a file gets them all."""
    from tuner.recordings.scores import MEANS, cells, title

    names, *rows = cells(summary, compile_times)
    spare = [name for name in SPARE if name in names] if is_terminal(sys.stdout) else []
    table(title(summary), names, rows, left=("space",), spare=spare)
    echo(MEANS)


def _print_curves(summary: Summary, curves: Sequence[Sequence[Curve]]) -> None:
    from tuner.report.curves import curve_text

    for score, runs in zip(summary.scores, curves, strict=True):
        echo(
            f"\n{score.space}: best so far over optimum, median of the seeds\n{curve_text(runs, min(60, width() - 20))}"
        )
