"""The record that a study's search was over, stored among Optuna's attributes of the study."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.orm import Session

from tuner.storage import optuna_tables

_SYSTEM = optuna_tables.STUDY_SYSTEM
_KEY = "tuner:ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a search.

    Attributes:
        part: The part of the space that it searched; empty for all of it.
        trials: How many results the study had then; with more results a search may find more.
        why: A line for people.
    """

    part: str
    trials: int
    why: str


def write_ended(connection: Connection, optuna_id: int, ended: Ended) -> None:
    """Record the last search that was over."""
    connection.execute(delete(_SYSTEM).where(_SYSTEM.c.study_id == optuna_id, _SYSTEM.c.key == _KEY))
    row = {"study_id": optuna_id, "key": _KEY, "value_json": json.dumps(asdict(ended))}
    connection.execute(insert(_SYSTEM), [row])


def read_ended(session: Session, optuna_id: int) -> Ended | None:
    """Return the last search that was over, if there was one."""
    text = session.scalar(select(_SYSTEM.c.value_json).where(_SYSTEM.c.study_id == optuna_id, _SYSTEM.c.key == _KEY))
    return Ended(**json.loads(text)) if text else None
