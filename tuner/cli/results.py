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
    from tuner.report.explain import Explanation
    from tuner.results import Result
    from tuner.storage import StudyHandle
    from tuner.tuning import Progress


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
    from tuner.cli.explain import explanation_part, print_explanation
    from tuner.cli.text import print_json
    from tuner.storage import Store
    from tuner.tuning.progress import stored_progress

    if top < 1:
        raise UsageError(f"--top {top}: nothing could be shown; give a number above 0")
    with Store.open(storage, create=False) as store:
        handle = naming.found(store, study)
        results = handle.numbered()
        progress = stored_progress(handle, list(results.values()))
        explained = _explained(handle, list(results.values())) if given["explain"] else None
        if given["as_json"]:
            print_json(_study_json(handle, progress, results) | explanation_part(explained))
        elif failures:
            _show_failures(handle, results)
        else:
            _show_best(handle, progress, results, top)
            if explained:
                echo()
                print_explanation(explained)


def _explained(handle: StudyHandle, results: list[Result]) -> Explanation | None:
    """Explain a study; None, and said, with too few trials: that is no wrong usage."""
    from tuner.report.explain import explain

    try:
        return explain(handle.name, results, handle.choices)
    except UsageError as error:
        echo(f"nothing explained: {error}", err=True)
        return None


def _study_json(handle: StudyHandle, progress: Progress, results: dict[int, Result]) -> dict[str, Any]:
    from tuner.cli.report_json import result_json

    numbered = [{"trial": number, **result_json(each, progress)} for number, each in results.items()]
    champion = handle.champion()
    return {
        "study": handle.name,
        "layer": progress.problem.name,
        "outcomes": handle.counts(),
        "winner": champion.trial if champion else None,
        "heuristics": handle.key.heuristics,
        "trials": numbered,
    }


def _show_best(handle: StudyHandle, progress: Progress, results: dict[int, Result], top: int) -> None:
    from tuner.bench.telemetry import warnings
    from tuner.cli.report import COLUMNS, floor_line, legend, mark, resources_line, speed
    from tuner.cli.text import echo_wrapped, table
    from tuner.storage.verified import no_winner

    machine = handle.environment
    echo(f"{handle.name}: {progress.problem.describe()}")
    echo_wrapped(f"{machine.model}, {machine.driver}")
    for name, file in handle.key.sources:
        if file:
            echo(f"template {name}: {file}")
    if not handle.key.heuristics:
        echo("searched without heuristics, so what they leave out too")
    counts = ", ".join(f"{count} {kind}" for kind, count in handle.counts().items())
    echo_wrapped(f"{len(results)} trials: {counts or 'none yet'}")
    echo()
    champion = handle.champion()
    won = champion.trial if champion else None
    ranked = sorted((number != won, each.seconds, number, each) for number, each in results.items() if each.ok)[:top]
    rows = [
        (
            mark(each, champion.result if champion else None, is_winner=number == won) + str(number),
            *speed(each, progress),
            f"{each.configuration.template} {each.baseline}".strip(),
        )
        for _, _, number, each in ranked
    ]
    table("best trials" if champion else "fastest trials", COLUMNS, rows, left=("template",))
    if line := legend([row[0] for row in rows]):
        echo_wrapped(line)
    if champion:
        best = champion.result
        echo(f"\nwinner: trial {won}, verified on second inputs and ragged batches:")
        echo_wrapped(str(best.configuration))
        for line in (resources_line(best.resources), floor_line(progress, best)):
            echo_wrapped(line)
        _show_conditions(best)
    else:
        echo_wrapped(f"\n{no_winner(handle)}")
    for line in warnings(results.values()):
        echo_wrapped(line)


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


def _show_failures(handle: StudyHandle, results: dict[int, Result]) -> None:
    failed = [(number, each) for number, each in results.items() if not each.ok]
    if not failed:
        echo(f"{handle.name}: none of {len(results)} trials failed")
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
    from tuner.storage import Store
    from tuner.storage.verified import verified_best
    from tuner.tuning.progress import stored_progress

    with Store.open(storage, create=False) as store:
        handle = naming.found(store, study)
        champion = verified_best(handle)
        progress = stored_progress(handle, handle.results())
    found = champion.result
    if as_json:
        print_json({"study": handle.name, "trial": champion.trial, **result_json(found, progress)})
        return
    echo_wrapped(f"{handle.name}: trial {champion.trial}, {milliseconds(found.seconds)} ms +- {spread(found)}")
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
