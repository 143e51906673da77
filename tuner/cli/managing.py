"""Commands that change whole studies of a store: rename, delete, merge."""

from __future__ import annotations

import sys

import click

from tuner.cli import naming, options
from tuner.cli.completion import problems_and_studies
from tuner.cli.folding import echo, folded, width
from tuner.errors import UsageError


@click.command(short_help="Give a study another name.")
@click.argument("study", metavar="OLD", shell_complete=problems_and_studies)
@click.argument("name", metavar="NEW")
@options.storage
def rename(study: str, name: str, storage: str) -> None:
    """Give a study another name; its identity stays: the same `tune run` continues it."""
    from tuner.storage import Store
    from tuner.storage.whole_studies import rename as rename_study

    with Store.open(storage, create=False) as store:
        old, new = rename_study(store, study, name)
    echo(f"renamed {old} to {new}")


@click.command(short_help="Delete a study with its trials.")
@naming.study()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.storage
def delete(study: str, yes: bool, storage: str) -> None:
    """Delete a study with all its trials and samples, after asking; compiled binaries and other studies stay."""
    from tuner.storage import Store
    from tuner.storage.whole_studies import delete as delete_study
    from tuner.storage.whole_studies import refuse_in_use

    with Store.open(storage, create=False) as store:
        handle = store.find_study(study, sole=True)
        refuse_in_use(handle)
        trials = sum(handle.counts().values())
        if not yes and not _agreed(handle.name, trials):
            echo("nothing deleted")
            return
        delete_study(store, handle)
    echo(f"deleted {handle.name}, {trials:,} trials")


def _agreed(name: str, trials: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"delete: '{name}' has {trials:,} trials, and there is no terminal to ask on; add --yes")
    return click.confirm(folded(f"delete {name} with its {trials:,} trials for good?", width()))


@click.command(short_help="Copy another store's studies into this one.")
@click.argument("other", metavar="OTHER.db", type=click.Path())
@options.storage
def merge(other: str, storage: str) -> None:
    """Copy the studies of another store into this one.

    Studies of the same identity become one: new configurations are added and those already here stay as they are. The
    other store is only read.
    """
    from tuner.cli.text import echo_wrapped, plural
    from tuner.storage import Store
    from tuner.storage.whole_studies import merge as merge_store

    with Store.open(other, create=False) as given, Store.open(storage) as store:
        taken = merge_store(store, given)
        for each in taken:
            here = "a new study" if each.is_new else f"{each.known:,} were here already"
            echo_wrapped(f"{each.study}: {plural(each.trials, 'trial')} added, {here}")
            if each.running:
                echo(f"{each.study}: {each.running}; its finals take in what was added", err=True)
        echo(f"{plural(len(taken), 'study').replace('studys', 'studies')} of {given} in {store}")


COMMANDS = (rename, delete, merge)
