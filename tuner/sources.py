"""A kernel's source as one text."""

from __future__ import annotations

import re
from pathlib import Path

from tuner.errors import UsageError

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"[^\n]*$', re.MULTILINE)


def with_includes(path: Path, inside: tuple[Path, ...] = ()) -> str:
    """Read a source with each file that it includes by ``#include "name"`` in its place.

    Args:
        inside: The files that include this one, the outermost first.

    Raises:
        UsageError: A file is missing, or includes itself.
    """
    if path in inside:
        raise UsageError(f"source {path} includes itself; remove the circle")
    if not path.is_file():
        raise UsageError(f"source {inside[-1] if inside else path}: there is no file {path}; put it there")

    def included(match: re.Match[str]) -> str:
        return with_includes(path.parent / match[1], (*inside, path))

    return _INCLUDE.sub(included, path.read_text(encoding="utf-8"))
