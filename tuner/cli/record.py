"""``tune record``: a study as a recorded space."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli.support import naming, options
from tuner.cli.support.folding import echo


@click.command("record", short_help="A study as a recorded space.")
@naming.study()
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A .csv or .csv.gz; else stdout.")
@options.only
@options.storage
def command(study: str, output: Path | None, only: tuple[str, ...], storage: str) -> None:
    """Write a study's trials as a recorded space, for `tune simulate` to replay."""
    from tuner.kernels.subspace import Restriction
    from tuner.recordings.write import check_recording, record_study
    from tuner.storage import Store

    if output is not None:
        check_recording(output)
    with Store.open(storage, create=False) as store:
        handle = naming.found(store, study)
        count, text = record_study(handle, Restriction.parse(only, handle.choices), output)
    if output is None:
        click.echo(text, nl=False)
    else:
        echo(f"wrote {count:,} configurations to {output}")
