"""Bring an older store's tables up to date; no result is rewritten."""

from __future__ import annotations

import json

from sqlalchemy import Connection, inspect, select, update

from tuner.storage.schema import SCHEMA_VERSION, Base, ResultRow, SchemaRow, StudyRow, table
from tuner.storage.winner import tell_apart

SETTLED = 3  # the version that records which results were in the finals
PROBLEMS = 7  # the version with problems of any kind; earlier ones have only convolutions, with a column for each size
CONV_SIZES = ("B", "C", "H", "W", "M", "K")


def upgrade(connection: Connection) -> None:
    """Add missing tables and columns in one transaction; another process may already have done so."""
    before = connection.scalar(select(table(SchemaRow).c.version))
    if before is not None and before < PROBLEMS:
        _name_problems(connection)
    Base.metadata.create_all(connection)  # tables added since
    looked = inspect(connection)
    for wanted in Base.metadata.sorted_tables:
        if not looked.has_table(wanted.name):
            continue
        there = {column["name"] for column in looked.get_columns(wanted.name)}
        for column in wanted.columns:
            if column.name not in there:
                kind = column.type.compile(connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {wanted.name} ADD COLUMN {column.name} {kind}")
    if before is not None and before < SETTLED:
        _keep_winners(connection)
    connection.execute(update(table(SchemaRow)).values(version=SCHEMA_VERSION))


def _name_problems(connection: Connection) -> None:
    """Turn the columns of a convolution's layer into a problem's kind, name and sizes."""
    connection.exec_driver_sql("DROP TABLE IF EXISTS tuner_run")  # running runs, of which there can be none now
    name = StudyRow.__tablename__
    if "sizes" in {column["name"] for column in inspect(connection).get_columns(name)}:
        return  # another process was first
    connection.exec_driver_sql(f"ALTER TABLE {name} RENAME COLUMN layer TO problem")
    connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN kind VARCHAR NOT NULL DEFAULT 'conv'")
    connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN sizes TEXT NOT NULL DEFAULT '{{}}'")
    letters = ", ".join(f'"{size}"' for size in CONV_SIZES)
    studies = table(StudyRow)
    for study, *numbers in connection.exec_driver_sql(f"SELECT id, {letters} FROM {name}").all():
        sizes = json.dumps(dict(zip(CONV_SIZES, numbers, strict=True)))
        connection.execute(update(studies).where(studies.c.id == study).values(sizes=sizes))
    for size in CONV_SIZES:
        connection.exec_driver_sql(f'ALTER TABLE {name} DROP COLUMN "{size}"')


def _keep_winners(connection: Connection) -> None:
    """Record that the winners of earlier finals took part in them, and make Optuna's best trial the same."""
    studies, results = table(StudyRow), table(ResultRow)
    for study in connection.execute(select(studies).where(studies.c.winner.is_not(None))).all():
        won = (results.c.study_id == study.id, results.c.key == study.winner)
        connection.execute(update(results).where(*won).values(settled=study.settled or study.created))
        tell_apart(connection, study.id, study.optuna_id)
