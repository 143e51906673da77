"""A store of before problems had kinds is brought up to date, whole or not at all, and kept as it was beside it."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from older_stores import with_columns_of_layers
from toy_store import ENVIRONMENT, TEMPLATES, toy_key, toy_ok

from tuner.errors import UsageError
from tuner.storage import Store, upgrade
from tuner.storage.schema import SCHEMA_VERSION


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A store of schema 4 with two results."""
    path = tmp_path / "older.db"
    with Store.open(path) as store:
        store.study(toy_key(), ENVIRONMENT, TEMPLATES).record_all([toy_ok(0), toy_ok(1)])
    with closing(sqlite3.connect(path)) as db, db:
        with_columns_of_layers(db)
        db.execute("UPDATE tuner_schema SET version = 4")
    return path


def columns(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {name for _, name, *_ in db.execute("PRAGMA table_info(tuner_study)")}


def test_older_store_is_brought_up_to_date_and_kept_beside(older: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Store.open(older) as store:
        (summary,) = store.studies()
        assert summary.key == toy_key()
        assert len(store.find_study(summary.name).results()) == 2
    assert {"kind", "problem", "sizes"} <= columns(older)
    assert "B" not in columns(older)
    kept = older.with_name("older.db.schema4")
    assert {"B", "C", "H", "W", "M", "K", "layer"} <= columns(kept)
    assert [record.getMessage() for record in caplog.records] == [
        f"storage {older}: brought to schema {SCHEMA_VERSION}; as it was before: {kept}"
    ]
    caplog.clear()
    Store.open(older).close()
    assert not caplog.records


def test_killed_while_it_is_brought_up_to_date_it_is_as_before(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(upgrade, "_keep_winners", killed)
    with closing(sqlite3.connect(older)) as db, db:
        db.execute("UPDATE tuner_schema SET version = 2")
    before = columns(older)
    with pytest.raises(KeyboardInterrupt):
        Store.open(older)
    assert columns(older) == before
    monkeypatch.undo()
    with Store.open(older) as store:
        assert len(store.studies()) == 1


def test_store_of_a_newer_tuner_is_refused_in_a_line(older: Path) -> None:
    Store.open(older).close()
    with closing(sqlite3.connect(older)) as db, db:
        db.execute("UPDATE tuner_schema SET version = 99")
    with pytest.raises(UsageError, match=r"made by a newer tuner \(schema 99, this one reads \d+\); upgrade"):
        Store.open(older)
