"""``tune merge``: another store's studies."""

from __future__ import annotations

import click

from tuner.cli.support import options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import echo_wrapped, plural


@click.command("merge", short_help="Copy another store's studies into this one.")
@click.argument("other", metavar="OTHER.db", type=click.Path())
@options.storage
def command(other: str, storage: str) -> None:
    """Copy the studies of another store into this one.

    Studies of the same identity become one: new configurations are added and those already here stay as they are. The
    other store is only read.
    """
    from tuner.storage import Store
    from tuner.storage.whole_studies import merge

    with Store.open(other, create=False) as given, Store.open(storage) as store:
        taken = merge(store, given)
        for each in taken:
            here = "a new study" if each.is_new else f"{each.known:,} were here already"
            echo_wrapped(f"{each.study}: {plural(each.trials, 'trial')} added, {here}")
            if each.running:
                echo(f"{each.study}: {each.running}; its finals take in what was added", err=True)
        echo(f"{plural(len(taken), 'study').replace('studys', 'studies')} of {given} in {store}")
