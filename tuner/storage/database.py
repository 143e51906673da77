"""The connection to a store: SQLite in WAL mode, or any other SQLAlchemy database; read and write transactions."""

from __future__ import annotations

import fcntl
import logging
import os
import shlex
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Any

import optuna
from optuna.storages import RDBStorage
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, select
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tuner.errors import StorageError, StoreFull, UsageError
from tuner.passwords import hidden
from tuner.processes.scratch import Scratch
from tuner.storage.copies import NAME, back_up, copied
from tuner.storage.location import Location, inspect_file, may_write
from tuner.storage.schema import SCHEMA_VERSION, Base, SchemaRow
from tuner.storage.sqlite_errors import one_line
from tuner.storage.upgrade import PROBLEMS, upgrade

BUSY_SECONDS = 30
_log = logging.getLogger(__name__)  # without a handler, Python prints warnings on stderr
_PRAGMAS = (f"busy_timeout = {BUSY_SECONDS * 1000}", "synchronous = NORMAL", "foreign_keys = ON")


class Database:
    """An open store: ``reading()`` sees one snapshot; ``writing()`` holds the write lock from its first statement."""

    def __init__(
        self, location: Location, lock: AbstractContextManager[None], copy: Scratch | None = None, why: str = ""
    ) -> None:
        self.location, self._copy, self._why = location, copy, why
        self.sealed = False
        self.engine = _engine(location)
        self._write_engine = self.engine.execution_options(writes=True)
        self._turn: AbstractContextManager[Any] = Lock() if location.path else nullcontext()
        self._views: list[RDBStorage] = []
        try:
            self._prepare(lock)
        except BaseException:
            self.close()
            raise

    @property
    def _name(self) -> str:
        return str(self.location)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        with one_line(self._name, self.location.path):
            yield

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with self._faults(), Session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        self.check_open()
        with (
            self._turn,
            self._faults(),
            self._write_engine.begin() as connection,
        ):  # SQLite would poll instead of waiting
            yield connection

    def optuna_storage(self) -> RDBStorage:
        """Return Optuna's own view of this store, with the same pragmas; it is closed with the store."""
        with self._faults():
            url = self.location.url.render_as_string(hide_password=False)
            storage = RDBStorage(url, skip_compatibility_check=True, skip_table_creation=True)
            self._views.append(storage)
            if self.location.path:
                event.listen(storage.engine, "connect", _set_pragmas)
                storage.engine.dispose()
            return storage

    def check_open(self) -> None:
        """Refuse to change a read-only store.

        Raises:
            StorageError: It is one.
        """
        if self.sealed:
            remedy = "change the permissions of the file and its folder, or copy it"
            raise StorageError(self._why or f"storage {self._name} may only be read; {remedy}")

    def seal(self) -> None:
        """Refuse writes from now on if this is a copy: they would be lost."""
        self.sealed = self._copy is not None

    def close(self) -> None:
        for view in self._views:
            view.remove_session()
            view.engine.dispose()
        self.engine.dispose()
        if self._copy:
            self._copy.close()

    def _prepare(self, lock: AbstractContextManager[None]) -> None:
        found = self._schema()
        if found is None:
            with lock:
                found = self._schema() or self._add_tables()
        if found.version > SCHEMA_VERSION:
            raise UsageError(
                f"storage {self._name} was made by a newer tuner (schema {found.version}, this one reads "
                f"{SCHEMA_VERSION}); upgrade: pip install --upgrade tuner"
            )
        if found.version < SCHEMA_VERSION:
            with lock:
                self._keep_a_copy(found.version)
                with self._write_engine.begin() as connection:
                    upgrade(connection)
        if found.optuna_version != optuna.__version__:
            self._check_optuna()

    def _keep_a_copy(self, version: int) -> None:
        """Keep a backup of the store beside it before its tables are migrated, and say so."""
        path = self.location.path
        if version >= PROBLEMS or self._copy is not None or path is None:
            return
        copy = path.with_name(f"{path.name}.schema{version}")
        back_up(path, copy)
        _log.warning("storage %s: brought to schema %d; as it was before: %s", self._name, SCHEMA_VERSION, copy)

    def _schema(self) -> SchemaRow | None:
        with Session(self.engine) as session:
            if not inspect(session.connection()).has_table(SchemaRow.__tablename__):
                return None
            return session.scalar(select(SchemaRow))

    def _add_tables(self) -> SchemaRow:
        """Create Optuna's tables if they are missing, then ours in one transaction."""
        _create_optuna_tables(self.location, self._name)
        row = SchemaRow(id=1, version=SCHEMA_VERSION, optuna_version=optuna.__version__)
        with self._write_engine.begin() as connection, Session(connection, expire_on_commit=False) as session:
            Base.metadata.create_all(connection)
            session.add(row)
            session.flush()
            session.expunge(row)
        return row

    def _check_optuna(self) -> None:
        """Let a different Optuna version check its tables once, and record that they fit."""
        _create_optuna_tables(self.location, self._name)
        with Session(self._write_engine) as session, session.begin():
            row = session.scalar(select(SchemaRow))
            if row:
                row.optuna_version = optuna.__version__


def open_database(location: Location, create: bool) -> Database:
    """Open a store; create it if missing and ``create`` allows it.

    Raises:
        UsageError, StorageError: As ``inspect_file``; or it was made by a newer tuner or another Optuna.
    """
    with one_line(str(location), location.path):
        if location.path:
            inspect_file(location.path, create)
            if not may_write(location.path) and not create:
                return open_copy(location, location.path)
            if create:
                _make_file(location.path)
        try:
            with one_line(str(location), location.path):
                return Database(location, _folder_lock(location.path))
        except StoreFull as full:
            if create or not location.path:
                raise
            return open_copy(location, location.path, str(full))


def open_copy(location: Location, path: Path, why: str = "") -> Database:
    """Open a copy of a store that can only be read.

    Args:
        why: The reason given when a write is refused; default: it may not be written.
    """
    copy = copied(path)
    url = location.url.set(database=str(copy.folder / NAME))
    try:
        return Database(Location(url, location.path), nullcontext(), copy, why)
    except BaseException:
        copy.close()
        raise


def _create_optuna_tables(location: Location, name: str) -> None:
    """Create missing Optuna tables; uses no pool, so that nothing stays open if Optuna refuses them."""
    url = location.url.render_as_string(hide_password=False)
    try:
        RDBStorage(url, {"poolclass": NullPool}).remove_session()
    except RuntimeError:
        raise UsageError(
            f"storage {name}: its tables were made for another Optuna than {optuna.__version__}; "
            f"run: optuna storage upgrade --storage {shlex.quote(hidden(location.url.render_as_string()))}"
        ) from None


def _engine(location: Location) -> Engine:
    try:
        engine = create_engine(location.url)
    except (NoSuchModuleError, ImportError) as error:
        raise UsageError(
            f"storage {location}: no driver for '{location.url.drivername}' ({error}); pip install it, or use SQLite"
        ) from None
    if location.path:
        event.listen(engine, "connect", _own_transactions)
        event.listen(engine, "connect", _set_pragmas)
        event.listen(engine, "begin", _begin)
    return engine


def _own_transactions(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin at _begin, not where the driver decides


def _set_pragmas(connection: sqlite3.Connection, _record: Any) -> None:
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()  # the pool does not yet track a connection that is being set up
        raise


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _make_file(path: Path) -> None:
    """Create a new store under a temporary name and move it into place, so that no process sees half of its tables.

    A link stays a link; the file gets its mode from the umask, since SQLite's default mode excludes the group.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and path.stat().st_size:
        return
    with _folder_lock(path):
        if path.exists() and path.stat().st_size:
            return  # another process was first
        aside = path.with_name(f".{path.name[:200]}.new")
        _remove(aside)  # left by a process that was killed here
        try:
            aside.touch()
            if path.exists():
                aside.chmod(stat.S_IMODE(path.stat().st_mode))
            Database(Location(URL.create("sqlite", database=str(aside)), aside), nullcontext()).close()
            aside.replace(path)
        finally:
            _remove(aside)


def _remove(path: Path) -> None:
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink(missing_ok=True)


@contextmanager
def _folder_lock(path: Path | None) -> Iterator[None]:
    """Let one process at a time create tables; the lock is on the folder, so it leaves no file behind."""
    if path is None:
        yield
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without such locks: SQLite's own still work
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
