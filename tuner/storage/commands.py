"""Command lines for users to copy: quoted, with the store unless it is the default, never with a password."""

from __future__ import annotations

import shlex

from tuner.errors import UsageError
from tuner.storage.location import Location, default_url, find_location


def storage_option(where: str | Location) -> str:
    """Return the option that names a store, with a space before it; nothing for the default store."""
    location = where if isinstance(where, Location) else find_location(where)
    return "" if location == _default() else f" --storage {shlex.quote(location.shown)}"


def _default() -> Location | None:
    try:
        return find_location(default_url())
    except UsageError:
        return None


def command(*words: str, where: str | Location) -> str:
    """Return a command line of ``tune`` on a store."""
    return f"tune {shlex.join(words)}{storage_option(where)}"
