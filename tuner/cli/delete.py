"""``tune delete``: a study with its trials, after asking."""

from __future__ import annotations

import sys

import click

from tuner.cli.support import naming, options
from tuner.cli.support.folding import echo, folded, width
from tuner.errors import UsageError


@click.command("delete", short_help="Delete a study with its trials.")
@naming.study()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.storage
def command(study: str, yes: bool, storage: str) -> None:
    """Delete a study with all its trials and samples, after asking; compiled binaries and other studies stay."""
    from tuner.storage import Store
    from tuner.storage.whole_studies import delete, refuse_in_use

    with Store.open(storage, create=False) as store:
        handle = store.find_study(study, sole=True)
        refuse_in_use(handle)
        trials = sum(handle.counts().values())
        if not yes and not _agreed(handle.name, trials):
            echo("nothing deleted")
            return
        delete(store, handle)
    echo(f"deleted {handle.name}, {trials:,} trials")


def _agreed(name: str, trials: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"delete: '{name}' has {trials:,} trials, and there is no terminal to ask on; add --yes")
    return click.confirm(folded(f"delete {name} with its {trials:,} trials for good?", width()))
