"""Read a store without write access, such as a colleague's or one on a full disk, from a copy.

SQLite has to write beside a file. From a copy, a store can be listed, shown and exported in any state: with an older
schema, or left by a killed run.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from tuner.errors import StorageError
from tuner.processes.scratch import Scratch

NAME = "tuner.db"


def copied(path: Path) -> Scratch:
    """Return a scratch folder with a copy of the store, as it was last committed, under ``NAME``.

    Raises:
        StorageError: It cannot be read.
    """
    scratch, real = Scratch(), Path(os.path.realpath(path))
    copy = scratch.folder / NAME
    try:
        if Path(f"{real}-shm").exists():  # another process may be writing; otherwise opening it would leave files there
            with suppress(sqlite3.Error):
                _back_up(real, copy)
                return scratch
            copy.unlink(missing_ok=True)
        shutil.copyfile(real, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{real}-wal", f"{copy}-wal")
    except BaseException as error:
        scratch.close()
        if not isinstance(error, OSError):
            raise
        limited = error.errno == errno.EFBIG
        remedy = "raise the limit with ulimit -f" if limited else "set TMPDIR to a folder with free space"
        raise StorageError(
            f"storage {path} can only be read, and a copy to read from cannot be made ({error.strerror}); {remedy}"
        ) from None
    return scratch


def back_up(path: Path, copy: Path) -> None:
    """Copy a store that another process may be writing, completely or not at all."""
    part = copy.with_name(f"{copy.name}.part")
    try:
        _back_up(Path(os.path.realpath(path)), part)
        part.replace(copy)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _back_up(path: Path, copy: Path) -> None:
    with (
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
