"""Results in the store, inside a caller's transaction: write one, read many."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session

from tuner.errors import Crashed
from tuner.results import OK, Environment, Result
from tuner.storage.claims import LAUNCH, claimed, is_dead
from tuner.storage.models import ClaimRow, FailureRow, ResultRow, SampleRow
from tuner.storage.rows import configuration_of, configuration_text, fill_result, result_of
from tuner.storage.trials import TrialWriter

INTERRUPTED = "the process that had this configuration on the device died before it could record a result"


@dataclass(frozen=True)
class Recorder:
    """Writes the results of one study, as ours and as Optuna's; the caller holds the write lock."""

    study_id: int
    environment_id: int
    environment: Environment
    trials: TrialWriter

    def store(self, session: Session, result: Result) -> ResultRow:
        """Store a result and drop its claim; a configuration that has one keeps its trial, with the new result."""
        key = result.configuration.key
        row = session.scalar(select(ResultRow).where(ResultRow.study_id == self.study_id, ResultRow.key == key))
        if row is None:
            row = self._new_row(session, result)
        else:
            self.trials.replace(session, row.trial_id, result, self.environment)
            for table in (SampleRow, FailureRow):
                session.execute(delete(table).where(table.result_id == row.id))
        fill_result(row, result)
        row.environment_id, row.suspect = self.environment_id, False
        session.flush()
        _add_details(session, row.id, result)
        session.execute(delete(ClaimRow).where(ClaimRow.study_id == self.study_id, ClaimRow.key == key))
        return row

    def _new_row(self, session: Session, result: Result) -> ResultRow:
        trial_id, number = self.trials.insert(session, result, self.environment)
        row = ResultRow(
            study_id=self.study_id,
            trial_id=trial_id,
            number=number,
            key=result.configuration.key,
            template=result.configuration.template,
            configuration=configuration_text(result.configuration),
            interrupted=0,
        )
        session.add(row)
        return row

    def close_stale(self, session: Session, keys: list[str]) -> int:
        """Free the claims of dead processes among ``keys``; what was on the device becomes a crashed suspect."""
        dead = [row for row in claimed(session, self.study_id, keys) if is_dead(row)]
        for claim in dead:
            if claim.stage == LAUNCH:
                self._suspect(session, claim)
            else:
                session.delete(claim)
        session.flush()
        return len(dead)

    def _suspect(self, session: Session, claim: ClaimRow) -> None:
        crashed = Result(
            configuration=configuration_of(claim.template, claim.configuration),
            outcome=Crashed.outcome,
            fingerprint="",
            text=INTERRUPTED,
            started=claim.claimed,
        )
        row = self.store(session, crashed)
        row.suspect = True
        row.interrupted += 1


def _add_details(session: Session, result_id: int, result: Result) -> None:
    if result.measurement and result.measurement.samples:
        session.add(SampleRow(result_id=result_id, seconds=json.dumps(result.measurement.samples)))
    if result.text:
        session.add(FailureRow(result_id=result_id, text=result.text))


def select_results() -> Select[ResultRow, str, str]:
    """Select what ``rows.result_of`` takes: row, samples, failure text."""
    return (
        select(ResultRow, SampleRow.seconds, FailureRow.text)
        .outerjoin(SampleRow, SampleRow.result_id == ResultRow.id)
        .outerjoin(FailureRow, FailureRow.result_id == ResultRow.id)
    )


def best_of(session: Session, study_id: int, confirmed_only: bool) -> Result | None:
    query = select_results().where(
        ResultRow.study_id == study_id, ResultRow.outcome == OK, ~ResultRow.pruned, ResultRow.median.is_not(None)
    )
    if confirmed_only:
        query = query.where(ResultRow.confirmed)
    found = session.execute(query.order_by(ResultRow.median, ResultRow.number).limit(1)).first()
    return result_of(*found) if found else None


def counts_of(session: Session, study_id: int) -> dict[str, int]:
    """Return how many results there are of each outcome, ``ok`` first."""
    found = session.execute(
        select(ResultRow.outcome, func.count())
        .where(ResultRow.study_id == study_id)
        .group_by(ResultRow.outcome)
        .order_by(ResultRow.outcome != OK, func.count().desc())
    )
    return dict(found.tuples().all())
