"""The names that shell completion offers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import click

from tuner.cli.support.options import default_storage


def problems_and_studies(context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Return the names with this prefix: problems, and the studies of the store if it is a file."""
    from tuner.problems.lookup import known_names

    names = [*known_names(), *_studies(context.params.get("storage"))]
    return [name for name in names if name.casefold().startswith(start.casefold())]


def _studies(storage: str | None) -> list[str]:
    """Read the studies' names without libraries that take a second to import; none if that fails."""
    path = Path((storage or default_storage()).removeprefix("sqlite:///"))
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as store:
            return [name for (name,) in store.execute("SELECT name FROM tuner_study ORDER BY created DESC")]
    except (sqlite3.Error, ValueError, OSError):
        return []
