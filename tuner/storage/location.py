"""The location of a store, a path or an SQLAlchemy URL, and checks that change nothing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tuner.errors import StorageError, StoreFull, UsageError
from tuner.passwords import hidden
from tuner.storage.sqlite_errors import is_no_database, one_line, sqlite_fault

DEFAULT_FOLDER = Path("studies")
DEFAULT_URL = "sqlite:///studies/tuner.db"
VARIABLE = "TUNER_STORAGE"
LONGEST_NAME, LONGEST_PATH = 240, 500  # bytes; SQLite appends -journal or -wal to a name
_OPTUNA_TABLES = {"studies", "trials", "version_info"}
_OUR_TABLE = "tuner_schema"


def default_url() -> str:
    """Return the default store."""
    return os.environ.get(VARIABLE) or DEFAULT_URL


@dataclass(frozen=True, slots=True)
class Location:
    """A store's URL and, for SQLite, its file."""

    url: URL
    path: Path | None

    def __str__(self) -> str:
        return str(self.path) if self.path else hidden(self.url.render_as_string(hide_password=False))

    @property
    def shown(self) -> str:
        """The path relative to the current folder, or the URL without its password."""
        here = Path.cwd()
        return str(self.path.relative_to(here)) if self.path and self.path.is_relative_to(here) else str(self)


def find_location(where: str | Path) -> Location:
    """Read a path or URL.

    Raises:
        UsageError: Not a URL, a database in memory, or a file given as a URI.
    """
    text = str(where)
    if "://" not in text:
        return _file(URL.create("sqlite"), Path(text))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise UsageError(f"storage '{hidden(text)}' is not a URL; write sqlite:///path/to/tuner.db") from None
    if url.get_backend_name() != "sqlite":
        return Location(url, None)
    if url.host or not url.database or url.database.startswith((":memory:", "file:")):
        raise UsageError(f"storage '{hidden(text)}' is not a plain file; write sqlite:///path/to/tuner.db")
    return _file(url, Path(url.database))


def _file(url: URL, path: Path) -> Location:
    full = path.absolute()
    if len(os.fsencode(full.name)) > LONGEST_NAME or len(os.fsencode(full)) > LONGEST_PATH:
        raise UsageError(
            f"storage {path}: SQLite takes names of up to {LONGEST_NAME} letters in paths of up to {LONGEST_PATH}; "
            "give a shorter one"
        )
    return Location(url.set(database=str(full)), path)


def foresee(where: str | Path) -> None:
    """Refuse early what :func:`inspect_file` would refuse after hours of work; create nothing.

    Raises:
        UsageError, StorageError: As opening the store would.
    """
    location = find_location(where)
    path = location.path
    if path is None:
        return
    with one_line(str(location), path):
        if path.parent == DEFAULT_FOLDER and not path.parent.exists():
            _inspect_folder(path.parent)
        else:
            inspect_file(path, create=True)


def inspect_file(path: Path, create: bool) -> None:
    """Refuse a file that is not, and cannot become, a store; create nothing but the default folder.

    Args:
        create: It will be written; a read-only store is refused.

    Raises:
        UsageError: A folder, no such file or folder, not an SQLite database, or another program's.
        StorageError: Damaged, not readable or not writable.
    """
    if path.is_dir():
        raise UsageError(f"storage {path} is a folder; give a file, such as {path / 'tuner.db'}")
    if not path.exists():
        _inspect_missing(Path(os.path.realpath(path)) if path.is_symlink() else path, create)
        return
    if not path.is_file():
        raise UsageError(f"storage {path} is not a plain file but a {_kind(path)}; give a file, such as tuner.db")
    for wanted, word in ((os.R_OK, "readable"), (os.W_OK, "writable"))[: 2 if create else 1]:
        if not os.access(path, wanted):
            raise StorageError(f"storage {path} is not {word}; change its permissions or copy it elsewhere")
    if create:
        _inspect_folder(path)
    _inspect_content(path, create)


def may_write(path: Path) -> bool:
    """Whether an existing store, and the files that SQLite makes beside it, may be written."""
    real = Path(os.path.realpath(path))
    return os.access(real, os.W_OK) and os.access(real.parent, os.W_OK | os.X_OK)


def _kind(path: Path) -> str:
    return "pipe" if path.is_fifo() else "socket" if path.is_socket() else "device"


def _inspect_missing(path: Path, create: bool) -> None:
    if not create:
        raise UsageError(f"storage {path} does not exist; start a study with `tune run`, or give --storage")
    if path.parent == DEFAULT_FOLDER and not path.parent.exists():
        try:
            path.parent.mkdir()
        except OSError as error:
            raise StorageError(
                f"storage {path}: cannot create folder {path.parent} ({error.strerror}); give another --storage"
            ) from None
    if not path.parent.is_dir():
        raise UsageError(f"storage {path}: folder {path.parent} does not exist; create it or give another path")
    _inspect_folder(path)


def _inspect_folder(path: Path) -> None:
    if not os.access(Path(os.path.realpath(path)).parent, os.W_OK | os.X_OK):
        raise StorageError(f"storage {path}: folder {path.parent} is not writable; give another --storage")


def _inspect_content(path: Path, create: bool) -> None:
    """Let SQLite check the file: it knows its own header, and its length in pages."""
    if not path.stat().st_size:
        if not create:
            raise UsageError(f"storage {path} is empty; start a study with `tune run`, or give --storage")
        return
    try:
        journal = Path(f"{os.path.realpath(path)}-wal")
        has_journal = journal.exists() and journal.stat().st_size > 0
        if has_journal and not may_write(path):
            return  # SQLite cannot read it here; opening a copy will show
        tables = _tables(path, has_journal)
    except sqlite3.Error as error:
        fault = sqlite_fault(str(path), path, error)
        if isinstance(fault, StoreFull) and not create:
            return  # the same
        raise (UsageError(str(fault)) if is_no_database(error) else fault) from None
    if tables and _OUR_TABLE not in tables and not tables >= _OPTUNA_TABLES:
        named = ", ".join(sorted(tables)[:3])
        raise UsageError(f"storage {path} belongs to another program (it has {named}); give another path")
    if not create and _OUR_TABLE not in tables:
        raise UsageError(f"storage {path} holds no study of the tuner; start one with `tune run`, or give --storage")


def _tables(path: Path, has_journal: bool) -> set[str]:
    """Read the table names; a file without a journal is opened as immutable, so that none appears beside it."""
    uri = f"{Path(os.path.realpath(path)).as_uri()}?{'mode=ro' if has_journal else 'immutable=1'}"
    with closing(sqlite3.connect(uri, uri=True, timeout=30)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in rows if not name.startswith("sqlite_")}
