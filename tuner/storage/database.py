"""The connection to a store: SQLite in WAL mode, or any other SQLAlchemy database; read and write transactions."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage
from sqlalchemy import Connection, Engine, create_engine, event, inspect, select
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.orm import Session

from tuner.errors import UsageError
from tuner.storage.faults import one_line
from tuner.storage.location import Location, inspect_file
from tuner.storage.models import SCHEMA_VERSION, Base, SchemaRow

BUSY_SECONDS = 30
_PRAGMAS = (f"busy_timeout = {BUSY_SECONDS * 1000}", "synchronous = NORMAL", "foreign_keys = ON")


class Database:
    """An open store: ``reading()`` sees one snapshot; ``writing()`` holds the write lock from its first statement."""

    def __init__(self, location: Location, create: bool) -> None:
        self.location = location
        with self._faults():
            if location.path:
                inspect_file(location.path, create)
            self.engine = _engine(location)
            self._write_engine = self.engine.execution_options(writes=True)
            self._prepare()

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
        with self._faults(), self._write_engine.begin() as connection:
            yield connection

    def optuna_storage(self) -> RDBStorage:
        """Return Optuna's own view of this store, with the same pragmas."""
        with self._faults():
            url = self.location.url.render_as_string(hide_password=False)
            storage = RDBStorage(url, skip_compatibility_check=True, skip_table_creation=True)
            if self.location.path:
                event.listen(storage.engine, "connect", _set_pragmas)
                storage.engine.dispose()
            return storage

    def close(self) -> None:
        self.engine.dispose()

    def _prepare(self) -> None:
        found = self._schema()
        if found is None:
            with _folder_lock(self.location.path):
                found = self._schema() or self._create()
        if found.version > SCHEMA_VERSION:
            raise UsageError(
                f"storage {self._name} was made by a newer tuner (schema {found.version}, this one reads "
                f"{SCHEMA_VERSION}); upgrade: pip install --upgrade tuner"
            )
        if found.optuna_version != optuna.__version__:
            self._check_optuna()

    def _schema(self) -> SchemaRow | None:
        with Session(self.engine) as session:
            if not inspect(session.connection()).has_table(SchemaRow.__tablename__):
                return None
            return session.scalar(select(SchemaRow))

    def _create(self) -> SchemaRow:
        """Create Optuna's tables, then ours; the schema row comes last and says that all are there."""
        _create_optuna_tables(self.location, self._name)
        with self._write_engine.begin() as connection:
            Base.metadata.create_all(connection)
        with Session(self._write_engine, expire_on_commit=False) as session, session.begin():
            row = SchemaRow(id=1, version=SCHEMA_VERSION, optuna_version=optuna.__version__)
            session.add(row)
        return row

    def _check_optuna(self) -> None:
        """Let an Optuna of another version look at its tables once, and remember that they fit."""
        _create_optuna_tables(self.location, self._name)
        with Session(self._write_engine) as session, session.begin():
            row = session.scalar(select(SchemaRow))
            if row:
                row.optuna_version = optuna.__version__


def _create_optuna_tables(location: Location, name: str) -> None:
    try:
        storage = RDBStorage(location.url.render_as_string(hide_password=False))
    except RuntimeError:
        raise UsageError(
            f"storage {name}: its tables were made for another Optuna than {optuna.__version__}; "
            f"run: optuna storage upgrade --storage {location.url.render_as_string()}"
        ) from None
    storage.remove_session()
    storage.engine.dispose()


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
    connection.isolation_level = None  # transactions begin where _begin says, not where the driver guesses


def _set_pragmas(connection: sqlite3.Connection, _record: Any) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _folder_lock(path: Path | None) -> Iterator[None]:
    """Let one process at a time create tables; the lock is on the folder, so it leaves no file behind."""
    if path is None:
        yield
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks: SQLite's own still hold
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
