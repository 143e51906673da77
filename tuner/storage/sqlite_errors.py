"""Database errors as one line for the user, distinguished by SQLite's error codes."""

from __future__ import annotations

import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from tuner.errors import StorageError, StoreFull
from tuner.passwords import hidden

_TINY = 1_000_000  # bytes free below which an input/output error is a full disk
_WRITES = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP", "SQLITE_IOERR_TRUNCATE")
_RESCUE = "restore a copy, or rescue what is left: sqlite3 {path} .recover | sqlite3 rescued.db"
_FULL = "the disk is full ({free}); free some space and run again, what is stored stays"
_REASONS = {
    sqlite3.SQLITE_READONLY: "cannot be written; change the permissions of the file and its folder, or copy it",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its folder exists and is writable",
    sqlite3.SQLITE_PERM: "cannot be opened; change the permissions of the file and its folder",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database; give another path",
    sqlite3.SQLITE_CORRUPT: f"is damaged or cut short; {_RESCUE}",
    sqlite3.SQLITE_BUSY: "is locked by another program for over 30 s; close that program and run again",
    sqlite3.SQLITE_LOCKED: "is locked by another program for over 30 s; close that program and run again",
    sqlite3.SQLITE_PROTOCOL: "is locked by another program for over 30 s; close that program and run again",
}


def sqlite_fault(subject: str, path: Path | None, error: sqlite3.Error) -> StorageError:
    """Return the one-line error for an SQLite error code."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    free = shutil.disk_usage(path.parent).free if path and path.parent.is_dir() else None
    if code == sqlite3.SQLITE_IOERR and free is not None and free < _TINY:
        code = sqlite3.SQLITE_FULL
    if code == sqlite3.SQLITE_IOERR and name in _WRITES and _is_limited():
        return StoreFull(f"storage {subject}: the limit on a file's size is reached; raise it with ulimit -f")
    if code != sqlite3.SQLITE_FULL and code not in _REASONS:
        return StorageError(f"storage {subject}: {name}: {str(error).splitlines()[0]}")
    shown = "size unknown" if free is None else f"{free / 1e6:,.1f} MB free"
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"storage {subject}: {_FULL.format(free=shown)}")
    return StorageError(f"storage {subject} " + _REASONS[code].format(path=path))


def is_no_database(error: sqlite3.Error) -> bool:
    """Whether the file has another format: the user named the wrong file."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB


def _is_limited() -> bool:
    """Whether this process has a limit on file sizes, which then refuses a write instead of the disk."""
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


@contextmanager
def one_line(subject: str, path: Path | None) -> Iterator[None]:
    """Turn every database error inside into a StorageError of one line."""
    try:
        yield
    except sqlite3.Error as error:
        raise sqlite_fault(subject, path, error) from error
    except IntegrityError as error:
        raise StorageError(
            f"storage {subject}: the study was deleted or changed by another program; run again ({_first_line(error)})"
        ) from error
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise sqlite_fault(subject, path, error.orig) from error
        raise StorageError(f"storage {subject}: {_first_line(error)}") from error
    except SQLAlchemyError as error:
        raise StorageError(f"storage {subject}: {_first_line(error)}") from error
    except OSError as error:
        raise StorageError(f"storage {subject}: {error.strerror or error}") from error


def _first_line(error: SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return hidden((str(cause).splitlines() or [type(cause).__name__])[0])
