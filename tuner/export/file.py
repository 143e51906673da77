"""Write a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from tuner.errors import StorageError, UsageError


def write_header(path: Path, text: str) -> None:
    """Write ``text`` beside ``path`` first, then put it in place; a reader never sees half a header.

    Raises:
        UsageError: ``path`` is a folder, or its folder does not exist.
        StorageError: It cannot be written (permissions, full disk); an older file stays as it was.
    """
    if path.is_dir():
        raise UsageError(f"header {path} is a folder; give a file, such as {path / 'conv2_best.h'}")
    if not path.parent.is_dir():
        raise UsageError(f"header {path}: folder {path.parent} does not exist; create it or give another path")
    temporary = ""
    try:
        number, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(number, _mode(path))
            os.fsync(number)
        Path(temporary).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(temporary).unlink()
        raise StorageError(
            f"header {path} cannot be written ({error.strerror}); free some space or give another path"
        ) from None


def _mode(path: Path) -> int:
    """Return the permissions of the file to replace, or those any new file gets."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
