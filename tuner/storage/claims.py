"""Claims: which process has which configuration in flight.

A configuration is claimed before it is compiled or launched, so that no two processes measure the same one. A process
that is killed leaves its claims behind; those that had reached the device are suspects: they may be what killed it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, insert, select

from tuner.kernels.configuration import Configuration
from tuner.storage.mapping import configuration_of, configuration_text
from tuner.storage.processes import Process, may_live, this_process
from tuner.storage.schema import ClaimRow, ResultRow, StudyRow, table

COMPILE = "compile"  # claimed, not yet on the device: free again if its process dies
LAUNCH = "launch"  # on the device: a suspect if its process dies
_CHUNK = 500  # values per IN list, well under SQLite's limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A configuration in flight."""

    study: str
    configuration: Configuration
    stage: str
    process: Process
    claimed: float

    @property
    def alive(self) -> bool:
        """Whether its process may still be working on it."""
        return may_live(self.process, self.claimed)


# Statements are built once: building them costs as much as running them.
_FINISHED = select(ResultRow.key).where(
    ResultRow.study_id == bindparam("study"), ResultRow.key.in_(bindparam("keys", expanding=True))
)
_TRIED = _FINISHED.where(~ResultRow.suspect)
_ADD = insert(table(ClaimRow))


def select_claims() -> Select[ClaimRow, str]:
    """Select what ``claim_of`` takes, oldest first: claim, name of its study."""
    query = select(table(ClaimRow), StudyRow.name.label("study")).join(StudyRow, StudyRow.id == ClaimRow.study_id)
    return query.order_by(ClaimRow.id)


_HELD = select_claims().where(
    ClaimRow.study_id == bindparam("study"), ClaimRow.key.in_(bindparam("keys", expanding=True))
)


def claim_of(row: Any) -> Claim:
    return Claim(
        study=row.study,
        configuration=configuration_of(row.template, row.configuration),
        stage=row.stage,
        process=Process(host=row.host, boot=row.boot, pid=row.pid, started=row.process_started),
        claimed=row.claimed,
    )


def take(connection: Connection, study_id: int, configurations: Sequence[Configuration], stage: str) -> None:
    """Insert claims of the calling process."""
    process, now = this_process(), time.time()
    rows = [
        {
            "study_id": study_id,
            "key": configuration.key,
            "template": configuration.template,
            "configuration": configuration_text(configuration),
            "stage": stage,
            "host": process.host,
            "boot": process.boot,
            "pid": process.pid,
            "process_started": process.started,
            "claimed": now,
        }
        for configuration in configurations
    ]
    if rows:
        connection.execute(_ADD, rows)


def held(connection: Connection, study_id: int, keys: Iterable[str]) -> list[Claim]:
    """Return the claims on ``keys`` of any process."""
    found: list[Claim] = []
    for chunk in chunks(list(keys)):
        found += [claim_of(row) for row in connection.execute(_HELD, {"study": study_id, "keys": chunk})]
    return found


def finished(connection: Connection, study_id: int, keys: Iterable[str], suspects_ok: bool) -> set[str]:
    """Return which of ``keys`` have a result; with ``suspects_ok``, a suspect's does not count."""
    query = _TRIED if suspects_ok else _FINISHED
    known: set[str] = set()
    for chunk in chunks(list(keys)):
        known |= set(connection.scalars(query, {"study": study_id, "keys": chunk}))
    return known


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split a list for IN: databases limit the number of bound values."""
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))
