"""Runs that are working on a store, visible from their start, before they have claimed anything."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, delete, insert, select, update

from tuner.errors import TunerError
from tuner.problems.problem import Problem
from tuner.storage.location import find_location
from tuner.storage.mapping import sizes_text
from tuner.storage.processes import Process, may_live, this_process
from tuner.storage.schema import RunRow, table
from tuner.storage.store import Store
from tuner.storage.study import StudyHandle

_RUNS = table(RunRow)


@dataclass(frozen=True, slots=True)
class Running:
    """A living run, and whether it already works on the study or is still preparing one of the same problem."""

    process: Process
    prepares: bool

    def __str__(self) -> str:
        what = "prepares a run of its problem" if self.prepares else "is measuring it"
        return f"process {self.process.pid} on {self.process.host} {what}"


class Announcement:
    """Announces a run in the store from its start to its end; one of a dead process is ignored.

    A missing store is not created: there is nothing that could be deleted.
    """

    def __init__(self, storage: str, problem: Problem, precision: str) -> None:
        self._storage, self._problem, self._precision = storage, problem, precision
        self._id: int | None = None

    def __enter__(self) -> Self:
        path = find_location(self._storage).path
        if path is None or (path.exists() and path.stat().st_size):
            with Store.open(self._storage) as store, store.database.writing() as connection:
                self._add(connection, None)
        return self

    def join(self, handle: StudyHandle) -> None:
        """Announce which study the run works on."""
        with handle.database.writing() as connection:
            if self._id is None:
                self._add(connection, handle.id)
            else:
                connection.execute(update(_RUNS).where(_RUNS.c.id == self._id).values(study_id=handle.id))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._id is None:
            return
        gone = delete(_RUNS).where(_RUNS.c.id == self._id)
        with (
            suppress(TunerError),
            Store.open(self._storage, create=False) as store,
            store.database.writing() as connection,
        ):
            connection.execute(gone)

    def _add(self, connection: Connection, study_id: int | None) -> None:
        drop_dead(connection)
        process = this_process()
        row = {
            "study_id": study_id,
            "problem": self._problem.name,
            "sizes": json.dumps(self._problem.sizes),
            "precision": self._precision,
            "host": process.host,
            "boot": process.boot,
            "pid": process.pid,
            "process_started": process.started,
            "begun": time.time(),
        }
        self._id = connection.scalar(insert(_RUNS).values(row).returning(_RUNS.c.id))


def running_on(handle: StudyHandle) -> Running | None:
    """Return a living run on a study or, if its study is not known yet, on the same problem and precision."""
    key = handle.key
    claimed = next((claim.process for claim in handle.claims() if claim.alive), None)
    if claimed:
        return Running(claimed, prepares=False)
    like = (_RUNS.c.problem == key.problem, _RUNS.c.sizes == sizes_text(key), _RUNS.c.precision == key.precision)
    wanted = (_RUNS.c.study_id == handle.id) | (_RUNS.c.study_id.is_(None) & like[0] & like[1] & like[2])
    with handle.database.reading() as session:
        rows = session.execute(select(_RUNS).where(wanted).order_by(_RUNS.c.study_id.is_(None))).all()
    found = ((row, Process(host=row.host, boot=row.boot, pid=row.pid, started=row.process_started)) for row in rows)
    return next(
        (Running(process, row.study_id is None) for row, process in found if may_live(process, row.begun)), None
    )


def drop_dead(connection: Connection) -> None:
    """Delete the runs of processes that have died."""
    for row in connection.execute(select(_RUNS)).all():
        process = Process(host=row.host, boot=row.boot, pid=row.pid, started=row.process_started)
        if not may_live(process, row.begun):
            connection.execute(delete(_RUNS).where(_RUNS.c.id == row.id))
