"""Commands that read one study: show, best, export, dashboard, replay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import naming, options
from tuner.cli.folding import echo
from tuner.cli.listing import list_studies
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.results import Result
    from tuner.storage import Champion, StudyView


@click.command(short_help="One study: best trials, baselines, failures.")
@naming.study()
@click.option("--failures", is_flag=True, help="Show the trials that failed, with their full text.")
@click.option(
    "--top",
    type=int,
    default=10,
    show_default=True,
    metavar="N",
    help="How many of the best to show.",
)
@options.explain
@options.storage
@options.as_json
def show(study: str, failures: bool, top: int, storage: str, **given: bool) -> None:
    """Show a study (its name, or its problem for the newest): the best trials, the baselines, the failures."""
    from tuner.cli.explain import explain_view, explanation_part, print_explanation
    from tuner.cli.text import print_json

    if top < 1:
        raise UsageError(f"--top {top}: nothing could be shown; give a number above 0")
    view = naming.read(storage, study)
    explained = explain_view(view) if given["explain"] else None
    if given["as_json"]:
        print_json(_study_json(view) | explanation_part(explained))
    elif failures:
        _show_failures(view)
    else:
        _show_best(view, top)
        if explained:
            echo()
            print_explanation(explained)


def _study_json(study: StudyView) -> dict[str, Any]:
    from tuner.cli.report_json import result_json

    yardstick = study.yardstick
    return {
        "study": study.name,
        "layer": study.problem.name,
        "outcomes": study.counts,
        "winner": study.winner.trial if study.winner else None,
        "heuristics": study.key.heuristics,
        "trials": [{"trial": number, **result_json(each, yardstick)} for number, each in study.results.items()],
    }


def _show_best(study: StudyView, top: int) -> None:
    """Print what was measured, a table of the best, and the winner."""
    from tuner.bench.telemetry import warnings
    from tuner.cli.report import COLUMNS, legend
    from tuner.cli.text import echo_wrapped, table

    _show_facts(study)
    echo()
    rows = _ranked(study, top)
    table("best trials" if study.winner else "fastest trials", COLUMNS, rows, left=("template",))
    if line := legend([row[0] for row in rows]):
        echo_wrapped(line)
    if study.winner:
        _show_winner(study, study.winner)
    else:
        echo_wrapped(f"\n{study.why_no_winner}")
    for line in warnings(study.results.values()):
        echo_wrapped(line)


def _show_facts(study: StudyView) -> None:
    from tuner.cli.text import echo_wrapped

    echo(f"{study.name}: {study.problem.describe()}")
    echo_wrapped(f"{study.environment.model}, {study.environment.driver}")
    for name, file in study.key.sources:
        if file:
            echo(f"template {name}: {file}")
    if not study.key.heuristics:
        echo("searched without heuristics, so what they leave out too")
    counts = ", ".join(f"{count} {kind}" for kind, count in study.counts.items())
    echo_wrapped(f"{len(study.results)} trials: {counts or 'none yet'}")


def _ranked(study: StudyView, top: int) -> list[tuple[str, ...]]:
    """Return a row for each of the best: the winner, then the others by their time."""
    from tuner.cli.report import mark, speed

    champion, yardstick = study.winner, study.yardstick
    won = champion.trial if champion else None
    ok = ((number != won, each.seconds, number, each) for number, each in study.results.items() if each.ok)
    return [
        (
            mark(each, champion.result if champion else None, is_winner=number == won) + str(number),
            *speed(each, yardstick),
            f"{each.configuration.template} {each.baseline}".strip(),
        )
        for _, _, number, each in sorted(ok)[:top]
    ]


def _show_winner(study: StudyView, champion: Champion) -> None:
    from tuner.cli.report import resources_line, roof_line
    from tuner.cli.text import echo_wrapped

    best = champion.result
    echo(f"\nwinner: trial {champion.trial}, verified on second inputs and ragged batches:")
    echo_wrapped(str(best.configuration))
    for line in (resources_line(best.resources), roof_line(study.yardstick, best)):
        echo_wrapped(line)
    _show_conditions(best)


def _show_conditions(result: Result) -> None:
    from tuner.bench.telemetry import describe
    from tuner.cli.text import echo_wrapped, milliseconds

    if result.measurement is None:
        return
    canary, ratio = result.measurement.canary, result.measurement.ratio
    if canary and ratio:
        echo_wrapped(f"{ratio:.4g} times the canary, the reference kernel on a few rows ({milliseconds(canary)} ms)")
    if state := describe(result.measurement.telemetry):
        echo_wrapped(f"measured at {state}")


def _show_failures(study: StudyView) -> None:
    failed = [(number, each) for number, each in study.results.items() if not each.ok]
    if not failed:
        echo(f"{study.name}: none of {len(study.results)} trials failed")
    for number, each in failed:
        echo(f"trial {number}: {each.outcome}: {each.configuration}")
        echo("\n".join(f"    {line}" for line in each.text.splitlines()))


@click.command(short_help="The verified winner of a study.")
@naming.study()
@options.storage
@options.as_json
def best(study: str, storage: str, as_json: bool) -> None:
    """Print the verified best configuration of a study."""
    from tuner.cli.report_json import result_json
    from tuner.cli.text import echo_wrapped, milliseconds, print_json, spread

    view = naming.read(storage, study)
    champion = view.verified()
    found = champion.result
    if as_json:
        print_json({"study": view.name, "trial": champion.trial, **result_json(found, view.yardstick)})
        return
    echo_wrapped(f"{view.name}: trial {champion.trial}, {milliseconds(found.seconds)} ms +- {spread(found)}")
    echo_wrapped(str(found.configuration))
    _show_conditions(found)


@click.command(short_help="The winner as a header, checked once more.")
@naming.study()
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Header to write.")
@click.option("--split", is_flag=True, help="CUDA: the kernel in a .cu beside the header, which any compiler takes.")
@options.templates
@options.storage
def export(study: str, output: Path | None, split: bool, **rest: Any) -> None:
    """Write the verified best configuration as a self-contained header, after compiling and running it once more.

    Without -o it becomes studies/NAME_best.h.
    """
    from tuner.cli.text import echo_wrapped, milliseconds
    from tuner.export.export import export_best

    done = export_best(study, output, rest["storage"], options.chosen_templates(rest["templates"]), split=split)
    naming.say_which(done.chosen)
    again = done.evaluation.measurement
    now = milliseconds(again.median) if again else "-"
    then = milliseconds(done.result.seconds)
    echo_wrapped(f"trial {done.trial}: measured {then} ms, run once more: verified, {now} ms")
    if done.change:
        echo_wrapped(done.change)
    echo(f"wrote {done.path}" + (f" and {done.path.with_suffix('.cu')}" if split else ""))


@click.command(short_help="optuna-dashboard on the store.")
@click.option("--port", type=int, metavar="N", help="A free one by default.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on.")
@options.storage
def dashboard(port: int | None, host: str, storage: str) -> None:
    """Serve optuna-dashboard on the store and print its address; Ctrl-C ends it."""
    from tuner.cli.dashboard_server import serve

    serve(storage, host=host, port=port)


@click.command(short_help="Run one trial again, verbosely.")
@naming.study_and_trial
@click.option("--keep-source", type=click.Path(path_type=Path), metavar="FILE", help="Write the rendered source here.")
@click.option("--profile", is_flag=True, help="Also run it once under ncu and print hardware counters.")
@options.templates
@options.storage
def replay(study: str, trial: int, keep_source: Path | None, profile: bool, **rest: Any) -> None:
    """Run one configuration of a study again, verbosely; nothing is stored."""
    from tuner.cli.replay import ReplayRequest, replay_trial

    asked = ReplayRequest(study=study, trial=trial, keep_source=keep_source, profile=profile)
    replay_trial(asked, rest["storage"], options.chosen_templates(rest["templates"]))


COMMANDS = (list_studies, show, best, export, dashboard, replay)
