"""``tune rename``: another name for a study."""

from __future__ import annotations

import click

from tuner.cli.support import options
from tuner.cli.support.completing import problems_and_studies
from tuner.cli.support.folding import echo


@click.command("rename", short_help="Give a study another name.")
@click.argument("study", metavar="OLD", shell_complete=problems_and_studies)
@click.argument("name", metavar="NEW")
@options.storage
def command(study: str, name: str, storage: str) -> None:
    """Give a study another name; its identity stays: the same `tune run` continues it."""
    from tuner.storage import Store
    from tuner.storage.whole_studies import rename

    with Store.open(storage, create=False) as store:
        old, new = rename(store, study, name)
    echo(f"renamed {old} to {new}")
