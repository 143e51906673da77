"""Which trial has won a study: one answer for every command, the note and Optuna.

Only a trial that was measured in the finals, beside the others, and was right on other inputs too may win. The finals
choose; what is measured later waits for the next finals, however fast it looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, select
from sqlalchemy.orm import Session

from tuner.results import OK, Result
from tuner.storage.mapping import result_of, select_results
from tuner.storage.schema import ResultRow, StudyRow, table
from tuner.storage.trials import put_apart, put_back, trials_apart

_MEASURED = (ResultRow.outcome == OK, ~ResultRow.pruned, ResultRow.median.is_not(None))
_MAY_WIN = (*_MEASURED, ResultRow.confirmed, ResultRow.settled.is_not(None))
# Statements are built once: building them costs as much as running them.
_CHAMPION = (
    select(table(ResultRow))
    .join(StudyRow, (StudyRow.id == ResultRow.study_id) & (StudyRow.winner == ResultRow.key))
    .where(ResultRow.study_id == bindparam("study"), *_MAY_WIN)
)
_RIVALS = select(table(ResultRow)).where(
    ResultRow.study_id == bindparam("study"), *_MEASURED, ResultRow.median <= bindparam("median")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Champion:
    """A trial by its number, with its result."""

    trial: int
    result: Result


@dataclass(frozen=True, slots=True)
class Won:
    """The winner as one line of a list: ``spread`` is half its 95% interval, relative to its median ``seconds``."""

    trial: int
    seconds: float
    spread: float
    template: str


def champion_of(session: Session, study_id: int) -> Champion | None:
    """Return the winner of the last finals; None without finals, or if it has failed since."""
    query = select_results().join(StudyRow, (StudyRow.id == ResultRow.study_id) & (StudyRow.winner == ResultRow.key))
    return _first(session, query.where(ResultRow.study_id == study_id, *_MAY_WIN))


def select_with_winner(study_id: int) -> Select[ResultRow, str, str, bool]:
    """Select a study's results as ``result_of`` takes them, in the order of their numbers, and whether each has won."""
    has_won = and_(StudyRow.winner == ResultRow.key, *_MAY_WIN)
    query = select_results().add_columns(has_won).join(StudyRow, StudyRow.id == ResultRow.study_id)
    return query.where(ResultRow.study_id == study_id).order_by(ResultRow.number)


def fastest_of(session: Session, study_id: int) -> Champion | None:
    """Return the fastest fully measured trial, even if it may not win; None if there is none."""
    query = select_results().where(ResultRow.study_id == study_id, *_MEASURED)
    return _first(session, query.order_by(ResultRow.median, ResultRow.number).limit(1))


def _first(session: Session, query: Select[ResultRow, str, str]) -> Champion | None:
    found = session.execute(query).first()
    return Champion(trial=found[0].number, result=result_of(*found)) if found else None


def winners(session: Session) -> dict[int, Won]:
    """Return every study's winner by the study's id."""
    query = select(ResultRow).join(StudyRow, (StudyRow.id == ResultRow.study_id) & (StudyRow.winner == ResultRow.key))
    return {row.study_id: _won(row) for row in session.scalars(query.where(*_MAY_WIN))}


def _won(row: ResultRow) -> Won:
    seconds = row.median or 0.0
    spread = ((row.interval_high or 0.0) - (row.interval_low or 0.0)) / 2 / seconds
    return Won(trial=row.number, seconds=seconds, spread=spread, template=row.template)


def tell_apart(connection: Connection, study_id: int, optuna_id: int) -> None:
    """Make the winner Optuna's best trial: others that measured as fast are excluded, with the reason."""
    champion = connection.execute(_CHAMPION, {"study": study_id}).first()
    fast = {"study": study_id, "median": champion.median} if champion else None
    rivals = {row.trial_id: row for row in connection.execute(_RIVALS, fast)} if fast else {}
    before = trials_apart(connection, optuna_id)
    for trial_id in before - rivals.keys():
        put_back(connection, trial_id)
    for trial_id, rival in rivals.items():
        if champion and trial_id != champion.trial_id:
            put_apart(connection, trial_id, _reason(rival, champion))
        elif trial_id in before:
            put_back(connection, trial_id)


def touches_winner(connection: Connection, study_id: int, results: Iterable[Result]) -> bool:
    """Whether one of some new results is the winner's, or measured as fast."""
    winner = connection.scalar(select(StudyRow.winner).where(StudyRow.id == study_id))
    if winner is None:
        return False
    champion = connection.execute(_CHAMPION, {"study": study_id}).first()
    limit = champion.median if champion else 0.0
    return any(each.configuration.key == winner or (each.ok and each.seconds <= limit) for each in results)


def _reason(rival: Row[Any], champion: Row[Any]) -> str:
    if not rival.confirmed:
        return f"not checked on other inputs yet; trial {champion.number} is the winner"
    if rival.settled == champion.settled:
        return f"within the noise of trial {champion.number}, the winner"
    return f"not in the last finals; trial {champion.number} won these"
