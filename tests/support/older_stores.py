"""Stores as older versions left them, made from one of today's."""

from __future__ import annotations

import json
import sqlite3

SIZES = ("B", "C", "H", "W", "M", "K")


def with_columns_of_layers(db: sqlite3.Connection) -> None:
    """Give a store's studies the columns of before schema 7: a layer's name, and one column a size."""
    db.execute("DROP TABLE tuner_run")
    for size in SIZES:
        db.execute(f'ALTER TABLE tuner_study ADD COLUMN "{size}" INTEGER NOT NULL DEFAULT 0')
    for study, sizes in db.execute("SELECT id, sizes FROM tuner_study").fetchall():
        for size, number in json.loads(sizes).items():
            db.execute(f'UPDATE tuner_study SET "{size}" = ? WHERE id = ?', (number, study))
    for column in ("sizes", "kind"):
        db.execute(f"ALTER TABLE tuner_study DROP COLUMN {column}")
    db.execute("ALTER TABLE tuner_study RENAME COLUMN problem TO layer")
