"""Write a file whole or not at all."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import StorageError
from tuner.files import refuse_unwritable, write_whole


def write_header(path: Path, text: str) -> None:
    """Write ``text`` so that a reader never sees half a header.

    Raises:
        UsageError: ``path`` is a folder, or its folder does not exist or may not be written.
        StorageError: It cannot be written (full disk); an older file stays as it was.
    """
    refuse_unwritable(path, "header")
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise StorageError(
            f"header {path} cannot be written ({error.strerror}); free some space or give another path"
        ) from None
