"""Bring an older store's tables up to date: what was added since can be empty, so no result is rewritten."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, select, update

from tuner.storage.models import SCHEMA_VERSION, Base, ResultRow, SchemaRow, StudyRow, table
from tuner.storage.winner import tell_apart

SETTLED = 3  # the version that notes which results were in the finals


def upgrade(connection: Connection) -> None:
    """Add the tables and columns that are missing, in one transaction; another process may have been first."""
    Base.metadata.create_all(connection)  # tables that came since
    before = connection.scalar(select(table(SchemaRow).c.version))
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


def _keep_winners(connection: Connection) -> None:
    """Note that the winners of earlier finals were in them, and let Optuna name the same."""
    studies, results = table(StudyRow), table(ResultRow)
    for study in connection.execute(select(studies).where(studies.c.winner.is_not(None))).all():
        won = (results.c.study_id == study.id, results.c.key == study.winner)
        connection.execute(update(results).where(*won).values(settled=study.settled or study.created))
        tell_apart(connection, study.id, study.optuna_id)
