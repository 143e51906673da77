"""Bring an older store's tables up to date: every column added since can be empty, so nothing is rewritten."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, update

from tuner.storage.models import SCHEMA_VERSION, Base, SchemaRow, table


def upgrade(connection: Connection) -> None:
    """Add the columns that are missing, in one transaction; another process may have been first."""
    looked = inspect(connection)
    for wanted in Base.metadata.sorted_tables:
        if not looked.has_table(wanted.name):
            continue
        there = {column["name"] for column in looked.get_columns(wanted.name)}
        for column in wanted.columns:
            if column.name not in there:
                kind = column.type.compile(connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {wanted.name} ADD COLUMN {column.name} {kind}")
    connection.execute(update(table(SchemaRow)).values(version=SCHEMA_VERSION))
