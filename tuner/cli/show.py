"""``tune show``: one study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import naming, options
from tuner.cli.support.folding import echo
from tuner.cli.support.rows import COLUMNS, conditions, legend, mark, resources_line, roof_line, speed
from tuner.cli.support.text import echo_wrapped, print_json, table
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.storage import Champion, StudyView


@click.command("show", short_help="One study: best trials, baselines, failures.")
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
def command(study: str, failures: bool, top: int, storage: str, **given: bool) -> None:
    """Show a study (its name, or its problem for the newest): the best trials, the baselines, the failures."""
    from tuner.cli.support.explanation import explain_view, explanation_part, print_explanation

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
    from tuner.cli.support.result_json import result_json

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
    best = champion.result
    echo(f"\nwinner: trial {champion.trial}, verified on second inputs and ragged batches:")
    echo_wrapped(str(best.configuration))
    for line in (resources_line(best.resources), roof_line(study.yardstick, best), *conditions(best)):
        echo_wrapped(line)


def _show_failures(study: StudyView) -> None:
    failed = [(number, each) for number, each in study.results.items() if not each.ok]
    if not failed:
        echo(f"{study.name}: none of {len(study.results)} trials failed")
    for number, each in failed:
        echo(f"trial {number}: {each.outcome}: {each.configuration}")
        echo("\n".join(f"    {line}" for line in each.text.splitlines()))
