"""Scratch folders that outlive no run: the next run clears away what a killed one left behind.

Each folder holds a file that its owner keeps locked. Locks end with their process, however it ends, and hold between
containers that share a folder, where process ids would not.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from tuner.errors import TunerError
from tuner.folders import cache_folder

NEW, PREFIX = "tuner-new-", "tuner-run-"
LOCK = "in-use"
ROOM, LEAST = 64 << 20, 1 << 20  # bytes free: enough, and as good as none
REMEDY = "set TMPDIR to a folder with free space that you may write, on a file system not mounted noexec"


class Scratch:
    """A folder of this process for short-lived files; gone after :meth:`close`.

    Raises:
        TunerError: No folder for it can be written; one line with the remedy.
    """

    def __init__(self) -> None:
        parent = roomy()
        sweep(parent)
        try:
            made = Path(tempfile.mkdtemp(prefix=NEW, dir=parent))
            self._lock = os.open(made / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with suppress(OSError):  # a file system without locks: nobody can sweep there either
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.folder = made.rename(made.with_name(PREFIX + made.name.removeprefix(NEW)))  # locked before it is seen
        except OSError as error:
            raise TunerError(f"{parent} takes no short-lived files ({error.strerror or error}); {REMEDY}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        if self._lock < 0:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

    def __del__(self) -> None:
        if getattr(self, "_lock", -1) >= 0:
            self.close()


def is_full(folder: Path) -> bool:
    """Whether a folder has no room for what compilers write: what fails there may not be to blame."""
    try:
        free = os.statvfs(folder)
    except OSError:
        return False
    return free.f_bavail * free.f_frsize < LEAST or (free.f_files > 0 and free.f_favail == 0)


def roomy() -> Path:
    """Return a folder for short-lived files: the usual one, else the first that is writable and may hold programs.

    PoCL loads its kernels from there as libraries. Where none has much room, the one with the most is taken.

    Raises:
        TunerError: There is none; one line with the remedy.
    """
    usable = [(free, folder) for folder in _places() if (free := _room(folder)) is not None]
    if not usable:
        raise TunerError(f"no folder takes short-lived files and programs; {REMEDY}")
    return next((folder for free, folder in usable if free >= ROOM), max(usable)[1])


def _places() -> Iterator[Path]:
    with suppress(OSError):
        yield Path(tempfile.gettempdir())
    yield from (cache_folder(), Path("/var/tmp"), Path("/dev/shm"))


def _room(folder: Path) -> int | None:
    """Return the free bytes of a folder, or None where files cannot be made or programs not be loaded."""
    try:
        free = os.statvfs(folder)
    except OSError:
        return None
    if free.f_flag & os.ST_NOEXEC or not os.access(folder, os.W_OK | os.X_OK):
        return None
    return free.f_bavail * free.f_frsize


def sweep(parent: Path) -> int:
    """Remove this user's scratch folders whose owner has ended; return how many. What cannot be looked at stays."""
    swept = 0
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if not folder.is_symlink() and folder.stat().st_uid == os.getuid() and not _is_owned(folder):
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
    return swept


def _is_owned(folder: Path) -> bool:
    """Whether somebody holds the folder's lock; one without a lock file is only just being made.

    Raises:
        OSError: It has none, or the file system has no locks.
    """
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
