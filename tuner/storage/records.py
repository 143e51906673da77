"""Results in the store, inside a caller's transaction: write one, read many."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session

from tuner.errors import Crashed
from tuner.results import OK, Environment, Evaluation, Result
from tuner.storage.claims import LAUNCH, Claim, held
from tuner.storage.mapping import configuration_text, keys_of, result_columns
from tuner.storage.schema import ClaimRow, FailureRow, ResultRow, SampleRow, table
from tuner.storage.trials import TrialWriter, new_id

INTERRUPTED = "the process that had this configuration on the device died before it could record a result"


# Statements are built once: building them costs as much as running them.
_FIND = select(ResultRow.id, ResultRow.trial_id, ResultRow.number, ResultRow.interrupted).where(
    ResultRow.study_id == bindparam("study"), ResultRow.key == bindparam("key")
)
_DROP_CLAIM = delete(ClaimRow).where(ClaimRow.study_id == bindparam("study"), ClaimRow.key == bindparam("key"))
_ADD_RESULT, _ADD_SAMPLES, _ADD_FAILURE = map(insert, (table(ResultRow), table(SampleRow), table(FailureRow)))


@dataclass(frozen=True)
class Recorder:
    """Writes the results of one study to our tables and Optuna's; the caller holds the write lock."""

    study_id: int
    environment_id: int
    environment: Environment
    trials: TrialWriter

    def store(self, connection: Connection, result: Result, suspect: bool = False) -> int:
        """Store a result and drop its claim; return its trial's number.

        A configuration that has a result already keeps its trial, which is updated to the new result.
        """
        identity = {"study": self.study_id, "key": result.configuration.key}
        columns = {**result_columns(result), "environment_id": self.environment_id, "suspect": suspect}
        known = connection.execute(_FIND, identity).first()
        if known is None:
            result_id, number = self._add(connection, result, columns)
        else:
            result_id, number = known.id, known.number
            self.trials.replace(connection, known.trial_id, result, self.environment)
            _replace(connection, known.id, {**columns, "interrupted": known.interrupted + suspect})
        _add_details(connection, result_id, result)
        connection.execute(_DROP_CLAIM, identity)
        return number

    def _add(self, connection: Connection, result: Result, columns: dict[str, object]) -> tuple[int, int]:
        trial_id, number = self.trials.insert(connection, result, self.environment)
        configuration = result.configuration
        identity = {
            "study_id": self.study_id,
            "trial_id": trial_id,
            "number": number,
            "key": configuration.key,
            "template": configuration.template,
            "configuration": configuration_text(configuration),
            "interrupted": int(bool(columns["suspect"])),
        }
        added = connection.execute(_ADD_RESULT, {**identity, **columns})
        return new_id(added), number

    def close_stale(self, connection: Connection, keys: list[str]) -> int:
        """Free dead processes' claims on ``keys``; what was on the device becomes a crashed suspect."""
        dead = [claim for claim in held(connection, self.study_id, keys) if not claim.alive]
        for claim in dead:
            if claim.stage == LAUNCH:
                self.store(connection, _crashed(claim), suspect=True)
            else:
                for key in keys_of(claim.configuration):
                    connection.execute(_DROP_CLAIM, {"study": self.study_id, "key": key})
        return len(dead)


def _crashed(claim: Claim) -> Result:
    return Result(
        configuration=claim.configuration,
        fingerprint="",
        evaluation=Evaluation(outcome=Crashed.outcome, text=INTERRUPTED),
        started=claim.claimed,
    )


def _replace(connection: Connection, result_id: int, columns: dict[str, object]) -> None:
    for detail in (SampleRow, FailureRow):
        connection.execute(delete(detail).where(detail.result_id == result_id))
    connection.execute(update(table(ResultRow)).where(ResultRow.id == result_id).values(columns))


def _add_details(connection: Connection, result_id: int, result: Result) -> None:
    if result.measurement and result.measurement.samples:
        samples = json.dumps(result.measurement.samples)
        connection.execute(_ADD_SAMPLES, {"result_id": result_id, "seconds": samples})
    if result.text:
        connection.execute(_ADD_FAILURE, {"result_id": result_id, "text": result.text})


def counts_of(session: Session, study_id: int) -> dict[str, int]:
    """Return how many results there are of each outcome, ``ok`` first."""
    found = session.execute(
        select(ResultRow.outcome, func.count())
        .where(ResultRow.study_id == study_id)
        .group_by(ResultRow.outcome)
        .order_by(ResultRow.outcome != OK, func.count().desc())
    )
    return {row[0]: row[1] for row in found}
