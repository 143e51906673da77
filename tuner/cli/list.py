"""``tune list``: the studies of a store, as a table, as JSON, or as a README's table of winners."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import gigaflops, milliseconds, percent, print_json, spread, table, times

if TYPE_CHECKING:
    from tuner.storage import StudySummary, StudyView

SPARE = ("created", "+-", "template", "trials", "device")  # columns left out on a narrow terminal, in this order


@click.command("list", short_help="The studies of a store.")
@click.option("--markdown", is_flag=True, help="Print a table of winners for a README.")
@options.storage
@options.as_json
def command(markdown: bool, storage: str, as_json: bool) -> None:
    """List the studies of a store, the last used first."""
    from tuner.storage import Store, view_of
    from tuner.storage.commands import command as command_line

    with Store.open(storage, create=False) as store:
        studies = store.studies()
        if markdown:
            click.echo("\n".join(_markdown([view_of(store.find_study(study.name)) for study in studies])))
            return
    if as_json:
        print_json([_summary_json(study) for study in studies])
        return
    if not studies:
        echo(f"no studies in {store} yet; {command_line('run', 'conv2', where=storage)} makes one")
        return
    columns = ("study", "created", "device", "trials", "winner", "ms", "+-", "template")
    table(
        "studies",
        columns,
        [_row(study) for study in studies],
        left=("study", "created", "device", "template"),
        spare=SPARE,
    )


def _row(study: StudySummary) -> tuple[str, ...]:
    created = datetime.fromtimestamp(study.created).strftime("%Y-%m-%d %H:%M")
    return (
        study.name,
        created,
        study.key.device_kind,
        f"{study.trials:,}",
        "-" if study.winner is None else str(study.winner),
        milliseconds(study.best) if study.best else "-",
        f"{study.spread:.1%}" if study.spread is not None else "",
        study.template or "",
    )


def _markdown(studies: list[StudyView]) -> list[str]:
    """Return a table of verified winners, in the order of the problems' names."""
    lines = [
        "| layer | device | B | naive ms | best ms | +- | vs naive | GFLOP/s | roofline | template | trials |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for study in sorted(studies, key=lambda each: each.name):
        if study.winner is None:
            continue
        found, yardstick = study.winner.result, study.yardstick
        cells = (
            study.problem.name,
            study.environment.model,
            f"{study.problem.rows:,}",
            "-" if yardstick.naive is None else milliseconds(yardstick.naive),
            milliseconds(found.seconds),
            spread(found),
            times(yardstick.times_naive(found)),
            gigaflops(study.problem.flop, found.seconds),
            percent(yardstick.share_of_roof(found)),
            found.configuration.template,
            f"{len(study.results):,}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _summary_json(study: StudySummary) -> dict[str, Any]:
    return {
        "study": study.name,
        "layer": study.key.problem,
        "trials": study.trials,
        "ok": study.ok,
        "pruned": study.pruned,
        "failures": dict(study.failures),
        "device": study.key.device_kind,
        "device_model": study.key.device_model,
        "winner": study.winner,
        "template": study.template,
        "spread": study.spread,
        "best_ms": None if study.best is None else 1e3 * study.best,
        "created": study.created,
        "last_activity": study.last_activity,
    }
