"""The store: open it, create or find studies."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from tuner.errors import StoreFull, StudyMismatch
from tuner.kernels.template import KernelTemplate
from tuner.results import Environment, StudyKey
from tuner.storage import dashboard_note, optuna_tables
from tuner.storage.claims import Claim, claim_of, select_claims
from tuner.storage.database import Database, open_copy, open_database
from tuner.storage.location import DEFAULT_URL, find_location
from tuner.storage.lookup import pick_study
from tuner.storage.mapping import (
    choices_of_row,
    choices_of_templates,
    environment_digest,
    environment_of,
    environment_row,
    key_of,
    sources_text,
    study_row,
)
from tuner.storage.schema import EnvironmentRow, StudyRow
from tuner.storage.study import StudyHandle
from tuner.storage.summaries import StudySummary, summary_of, tallies_of
from tuner.storage.winner import winners

_METRIC_NAMES = "study:metric_names"  # where Optuna keeps the names of a study's values


class Store:
    """A database with studies in it. Use as a context manager, or close it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, where: str | Path = DEFAULT_URL, *, create: bool = True) -> Self:
        """Open a store by path or SQLAlchemy URL, and free what dead processes left in flight.

        Raises:
            UsageError: Not a store, and cannot become one; or made by a newer tuner.
            StorageError: Not readable or writable, full, locked or damaged.
        """
        location = find_location(where)
        store = cls(open_database(location, create))
        try:
            return store._tidied()
        except StoreFull as full:
            if create or not location.path:
                raise
            return cls(open_copy(location, location.path, str(full)))._tidied()

    def _tidied(self) -> Self:
        try:
            self.drop_orphans()
            self.close_stale()
            self.database.seal()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def url(self) -> str:
        """The store's URL, any password included."""
        return self.database.location.url.render_as_string(hide_password=False)

    def __str__(self) -> str:
        return str(self.database.location)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.database.close()

    def optuna_storage(self) -> RDBStorage:
        """Return Optuna's own view of this store (for the dashboard, and for ``optuna.load_study``)."""
        return self.database.optuna_storage()

    def study(self, key: StudyKey, environment: Environment, templates: Sequence[KernelTemplate]) -> StudyHandle:
        """Create the study, or continue it if the store has it.

        Raises:
            StudyMismatch: A stored study has this name and another key, or other parameters.
        """
        choices = choices_of_templates(tuple(templates))
        with self.database.writing() as connection, Session(connection) as session:
            environment_id = environment_id_of(session, environment)
            row = _row_of(session, key)
            if row is None:
                row = create_study(session, study_row(key, choices), environment_id)
                dashboard_note.write_note(
                    connection,
                    row.optuna_id,
                    dashboard_note.explain(key, environment, {}, None, self.database.location),
                )
            elif row.digest != key.digest or choices_of_row(row) != choices:
                raise StudyMismatch(f"study '{key.name}' in {self} has other parameters; give another --storage")
            row.environment_id = environment_id
            row.sources = sources_text(key)  # a template's file may have been moved
            session.flush()
            dashboard_note.write_facts(connection, row.optuna_id, key, environment)
            return self._handle(row, environment)

    def find_study(
        self, text: str, *, sole: bool = False, fits: Callable[[StudyKey], bool] = lambda _: True
    ) -> StudyHandle:
        """Find a study by its exact name, Optuna's id, its problem or template, or an unambiguous start of its name.

        Of several studies of a problem the newest with a verified winner is taken, else the newest; ``chosen`` says so.

        Args:
            sole: Refuse an ambiguous name, for example if the study is to be deleted.
            fits: Ignore studies for which this is false.

        Raises:
            UsageError: No such study (names a near one, or lists them), or several.
        """
        with self.database.reading() as session:
            rows = [row for row in session.scalars(select(StudyRow).order_by(StudyRow.created)) if fits(key_of(row))]
            picked = pick_study(text, rows, str(self), lambda: winners(session).keys(), sole=sole)
            environment = session.get_one(EnvironmentRow, picked.row.environment_id)
            return self._handle(picked.row, environment_of(environment), picked.why)

    def _handle(self, row: StudyRow, environment: Environment, chosen: str = "") -> StudyHandle:
        return StudyHandle(
            database=self.database,
            id=row.id,
            optuna_id=row.optuna_id,
            environment_id=row.environment_id,
            name=row.name,
            key=key_of(row),
            environment=environment,
            choices=choices_of_row(row),
            chosen=chosen,
        )

    def studies(self) -> list[StudySummary]:
        """List all studies, the last used first."""
        with self.database.reading() as session:
            rows = list(session.scalars(select(StudyRow)))
            tallies, won = tallies_of(session), winners(session)
        summaries = [summary_of(row, tallies.get(row.id, []), won.get(row.id)) for row in rows]
        return sorted(summaries, key=lambda summary: summary.last_activity, reverse=True)

    def stale_claims(self) -> list[Claim]:
        """Return what dead processes have in flight (opening the store has already closed those from before)."""
        with self.database.reading() as session:
            claims = [claim_of(row) for row in session.execute(select_claims())]
        return [claim for claim in claims if not claim.alive]

    def close_stale(self) -> int:
        """Free the claims of dead processes; what they had on the device becomes ``crashed`` and a suspect."""
        stale: dict[str, list[str]] = {}
        for claim in self.stale_claims():
            stale.setdefault(claim.study, []).append(claim.configuration.key)
        closed = 0
        for name, keys in stale.items():
            handle = self.find_study(name)
            with self.database.writing() as connection:
                closed += handle.recorder.close_stale(connection, keys)
        return closed

    def drop_orphans(self) -> None:
        """Delete studies whose Optuna study was deleted by a program that does not know of our tables."""
        study = optuna_tables.STUDY
        with self.database.reading() as session:
            orphans = (
                select(StudyRow.id)
                .outerjoin(study, (study.c.study_id == StudyRow.optuna_id) & (study.c.study_name == StudyRow.name))
                .where(study.c.study_id.is_(None))
            )
            lost = list(session.scalars(orphans))
        if lost:
            with self.database.writing() as connection:
                connection.execute(delete(StudyRow).where(StudyRow.id.in_(lost)))


def _row_of(session: Session, key: StudyKey) -> StudyRow | None:
    """Return a study by its identity, even if renamed; else the one that has its name."""
    for wanted in (StudyRow.digest == key.digest, StudyRow.name == key.name):
        if row := session.scalar(select(StudyRow).where(wanted)):
            return row
    return None


def environment_id_of(session: Session, environment: Environment) -> int:
    digest = environment_digest(environment)
    row = session.scalar(select(EnvironmentRow).where(EnvironmentRow.digest == digest))
    if row is None:
        row = environment_row(environment)
        session.add(row)
        session.flush()
    return row.id


def create_study(session: Session, row: StudyRow, environment_id: int) -> StudyRow:
    """Insert Optuna's study (one value in ms, to be minimised) and ours.

    Raises:
        StudyMismatch: Another program has a study of this name here.
    """
    study = optuna_tables.STUDY
    if session.scalar(select(study.c.study_id).where(study.c.study_name == row.name)):
        raise StudyMismatch(f"study '{row.name}' was made by another program in this file; give another --storage")
    row.optuna_id = session.scalar(insert(study).values(study_name=row.name).returning(study.c.study_id))
    session.execute(
        insert(optuna_tables.DIRECTION).values(study_id=row.optuna_id, objective=0, direction=StudyDirection.MINIMIZE)
    )
    session.execute(
        insert(optuna_tables.STUDY_SYSTEM).values(
            study_id=row.optuna_id, key=_METRIC_NAMES, value_json=json.dumps(["ms"])
        )
    )
    row.environment_id = environment_id
    session.add(row)
    session.flush()
    return row
