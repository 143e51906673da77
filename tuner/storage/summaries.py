"""A store's studies in one line each, counted by the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from tuner.results import OK, StudyKey
from tuner.storage.mapping import key_of
from tuner.storage.schema import ResultRow, StudyRow
from tuner.storage.winner import Won


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    """One line of a list of studies.

    Attributes:
        id: Optuna's id of the study, as the dashboard shows it.
        ok: Correct configurations, including pruned ones.
        failures: Failed trials by outcome.
        winner: The verified winner's trial; None until finals have chosen one.
        best: Its median seconds.
        spread: Half the 95% interval of these, relative to them.
        template: Its template.
        last_activity: When the newest result was recorded, or the study was created; seconds since the epoch.
    """

    id: int
    name: str
    key: StudyKey
    trials: int
    ok: int
    pruned: int
    failures: Mapping[str, int]
    winner: int | None
    best: float | None
    spread: float | None
    template: str | None
    created: float
    last_activity: float


@dataclass(frozen=True, slots=True)
class Tally:
    """The count of one outcome in a study."""

    outcome: str
    count: int
    pruned: int
    last: float


def tallies_of(session: Session) -> dict[int, list[Tally]]:
    """Count all studies' results by outcome in one statement."""
    query = select(
        ResultRow.study_id,
        ResultRow.outcome,
        func.count(),
        func.sum(case((ResultRow.pruned, 1), else_=0)),
        func.max(ResultRow.finished),
    ).group_by(ResultRow.study_id, ResultRow.outcome)
    tallies: dict[int, list[Tally]] = {}
    for study_id, *values in session.execute(query):
        tallies.setdefault(study_id, []).append(Tally(*values))
    return tallies


def summary_of(row: StudyRow, tallies: list[Tally], won: Won | None) -> StudySummary:
    passed = [tally for tally in tallies if tally.outcome == OK]
    return StudySummary(
        id=row.optuna_id,
        name=row.name,
        key=key_of(row),
        trials=sum(tally.count for tally in tallies),
        ok=sum(tally.count for tally in passed),
        pruned=sum(tally.pruned for tally in passed),
        failures={tally.outcome: tally.count for tally in tallies if tally.outcome != OK},
        winner=won.trial if won else None,
        best=won.seconds if won else None,
        spread=won.spread if won else None,
        template=won.template if won else None,
        created=row.created,
        last_activity=max([row.created, *(tally.last for tally in tallies)]),
    )
