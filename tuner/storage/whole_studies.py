"""Operations on whole studies: rename one, delete one, merge those of another store."""

from __future__ import annotations

from dataclasses import dataclass, replace

from optuna.exceptions import StorageInternalError
from sqlalchemy import Connection, select, update
from sqlalchemy.orm import Session

from tuner.errors import StudyMismatch, UsageError
from tuner.results import Environment, Result
from tuner.storage import optuna_tables
from tuner.storage.dashboard_note import write_facts
from tuner.storage.mapping import environment_of, key_of, result_of, select_results
from tuner.storage.records import Recorder
from tuner.storage.runs import Running, running_on
from tuner.storage.schema import EnvironmentRow, ResultRow, StudyRow, table
from tuner.storage.sqlite_errors import one_line
from tuner.storage.store import Store, create_study, environment_id_of
from tuner.storage.study import StudyHandle
from tuner.storage.winner import tell_apart

LONGEST_NAME = 200
_OPTUNA = optuna_tables.STUDY
_OWN = {"id", "optuna_id", "environment_id"}  # columns that locate a study in its store
_KEPT = ("finished", "suspect", "interrupted")  # columns kept as they were in the other store


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What was merged from one study of another store: new trials, those already here, whether the study is new.

    Attributes:
        running: A run that is working on the study here.
    """

    study: str
    trials: int
    known: int
    is_new: bool
    running: Running | None


def rename(store: Store, study: str, name: str) -> tuple[str, str]:
    """Give a study another name, in Optuna's table too; return the old one and the new one.

    Raises:
        UsageError: No such study or several, one that a run is on, or a name that another one has or that finds none.
    """
    handle, new = store.find_study(study, sole=True), " ".join(name.split())
    if not new or len(new) > LONGEST_NAME or new.isdecimal() or not new.isprintable():
        raise UsageError(
            f"name '{name[:50]}' would not be found again; give 1 to {LONGEST_NAME} letters, not digits alone"
        )
    refuse_in_use(handle)
    with store.database.writing() as connection:
        taken = connection.scalars(select(_OPTUNA.c.study_name).where(_OPTUNA.c.study_id != handle.optuna_id))
        if new.casefold() in {each.casefold() for each in taken}:
            raise UsageError(f"name '{new}': another study has it; give another name")
        ours = update(table(StudyRow)).where(StudyRow.id == handle.id)
        connection.execute(ours.values(name=new))
        connection.execute(update(_OPTUNA).where(_OPTUNA.c.study_id == handle.optuna_id).values(study_name=new))
    return handle.name, new


def refuse_in_use(handle: StudyHandle) -> None:
    """Refuse to touch a study that a run is working on, or may be about to.

    Raises:
        UsageError: There is one; names its process.
    """
    if running := running_on(handle):
        raise UsageError(f"study '{handle.name}': {running}; end that run first")


def delete(store: Store, handle: StudyHandle) -> None:
    """Delete a study with its trials; the other studies stay.

    Raises:
        UsageError: A run is on it.
        StorageError: The store cannot be written.
    """
    refuse_in_use(handle)
    store.database.check_open()
    with one_line(str(store), store.database.location.path):
        try:
            store.optuna_storage().delete_study(handle.optuna_id)
        except StorageInternalError as error:  # Optuna's class for any error of the database
            raise error.__cause__ or error from None
    store.drop_orphans()


def merge(store: Store, other: Store) -> list[Taken]:
    """Merge the studies of another store, which stays unchanged; configurations that are already here are skipped.

    Raises:
        UsageError: Both are the same store.
        StudyMismatch: A study of the same identity has other parameters here; those before it have been merged.
    """
    if other.database.location == store.database.location:
        raise UsageError(f"storage {store}: it is the store itself; give another one to merge")
    return [_take(store, other.find_study(summary.name)) for summary in reversed(other.studies())]


def _take(store: Store, theirs: StudyHandle) -> Taken:
    with theirs.database.reading() as session:
        row = session.get_one(StudyRow, theirs.id)
        session.expunge(row)
        note = theirs.read_note()
    ours, is_new = _adopted(store, row, theirs.environment)
    if ours.choices != theirs.choices:
        raise StudyMismatch(
            f"study '{theirs.name}' of {theirs.database.location} has other parameters here; leave it out"
        )
    known = set() if is_new else {each.configuration.key for each in ours.results()}
    found = _rows(theirs)
    new = [each for each in found if each[0]["key"] not in known]
    with store.database.writing() as connection, Session(connection) as session:
        for columns, result, environment in new:
            _copy(connection, session, ours, (columns, result, environment), is_new)
        tell_apart(connection, ours.id, ours.optuna_id)
    if is_new:
        ours.note(note)
        if ended := theirs.ended():
            ours.set_ended(ended)
    ours.note()
    return Taken(study=ours.name, trials=len(new), known=len(found) - len(new), is_new=is_new, running=running_on(ours))


def _adopted(store: Store, row: StudyRow, environment: Environment) -> tuple[StudyHandle, bool]:
    """Return the study of the same identity here, and whether it was made now."""
    with store.database.writing() as connection, Session(connection) as session:
        ours = session.scalar(select(StudyRow).where(StudyRow.digest == row.digest))
        name = row.name if ours is None else ours.name
        if ours is None:
            if session.scalar(select(_OPTUNA.c.study_id).where(_OPTUNA.c.study_name == name)):
                name = f"{name} {row.digest[:6]}"  # a user gave this name to another study here
            copied = {each: getattr(row, each) for each in set(table(StudyRow).columns.keys()) - _OWN}
            made = StudyRow(**(copied | {"name": name}))
            create_study(session, made, environment_id_of(session, environment))
            write_facts(connection, made.optuna_id, key_of(made), environment)
    return store.find_study(name), ours is None


_Found = tuple[dict[str, object], Result, Environment]


def _rows(handle: StudyHandle) -> list[_Found]:
    """Return every result of a study: its columns, itself, and where it was measured."""
    with handle.database.reading() as session:
        environments = {row.id: environment_of(row) for row in session.scalars(select(EnvironmentRow))}
        rows = session.execute(select_results().where(ResultRow.study_id == handle.id).order_by(ResultRow.number))
        return [
            (
                {name: getattr(row, name) for name in ("key", *_KEPT)},
                result_of(row, samples, failure),
                environments[row.environment_id],
            )
            for row, samples, failure in rows
        ]


def _copy(connection: Connection, session: Session, ours: StudyHandle, found: _Found, is_new: bool) -> None:
    """Store one result as it was measured there; in an existing study it does not count as a finalist."""
    columns, result, environment = found
    result = result if is_new else replace(result, settled=0.0)
    place = environment_id_of(session, environment)
    Recorder(ours.id, place, environment, ours.recorder.trials).store(connection, result)
    kept = {name: columns[name] for name in _KEPT}
    mine = update(table(ResultRow)).where(ResultRow.study_id == ours.id, ResultRow.key == columns["key"])
    connection.execute(mine.values(kept))
