"""Claims: which process has which configuration in flight.

A configuration is claimed before it is compiled or launched, so that no two processes measure the same one. A process
that is killed leaves its claims behind; those that had reached the device are suspects: they may be what killed it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.storage.models import ClaimRow, ResultRow
from tuner.storage.processes import Process, may_live, this_process
from tuner.storage.rows import configuration_of, configuration_text
from tuner.templates import Configuration

COMPILE = "compile"  # claimed, not yet on the device: if its process dies, it is simply free again
LAUNCH = "launch"  # on the device: if its process dies, it is a suspect
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


def claim_of(row: ClaimRow, study: str) -> Claim:
    return Claim(
        study=study,
        configuration=configuration_of(row.template, row.configuration),
        stage=row.stage,
        process=Process(host=row.host, boot=row.boot, pid=row.pid, started=row.process_started),
        claimed=row.claimed,
    )


def claim_row(study_id: int, configuration: Configuration, stage: str) -> ClaimRow:
    """Return a claim of the calling process."""
    process = this_process()
    return ClaimRow(
        study_id=study_id,
        key=configuration.key,
        template=configuration.template,
        configuration=configuration_text(configuration),
        stage=stage,
        host=process.host,
        boot=process.boot,
        pid=process.pid,
        process_started=process.started,
        claimed=time.time(),
    )


def is_dead(row: ClaimRow) -> bool:
    process = Process(host=row.host, boot=row.boot, pid=row.pid, started=row.process_started)
    return not may_live(process, row.claimed)


def claimed(session: Session, study_id: int, keys: Iterable[str]) -> list[ClaimRow]:
    """Return the claims on ``keys``, whoever holds them."""
    rows: list[ClaimRow] = []
    for chunk in chunks(list(keys)):
        rows += session.scalars(select(ClaimRow).where(ClaimRow.study_id == study_id, ClaimRow.key.in_(chunk)))
    return rows


def finished(session: Session, study_id: int, keys: Iterable[str], suspects_ok: bool) -> set[str]:
    """Return which of ``keys`` have a result; with ``suspects_ok``, a suspect's does not count."""
    known: set[str] = set()
    for chunk in chunks(list(keys)):
        found = select(ResultRow.key).where(ResultRow.study_id == study_id, ResultRow.key.in_(chunk))
        known |= set(session.scalars(found.where(~ResultRow.suspect) if suspects_ok else found))
    return known


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut a list for IN: databases limit the number of bound values."""
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))
