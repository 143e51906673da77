"""Commands that are suggested can be copied: quoted, with their store, by a brief name, and without any password."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from toy_store import ENVIRONMENT, toy_key

from tuner.cli import _run
from tuner.errors import StorageError, TunerError
from tuner.passwords import hidden
from tuner.results import StudyKey
from tuner.storage.commands import command, storage_option
from tuner.storage.dashboard_note import explain
from tuner.storage.location import find_location
from tuner.storage.note_parts import END, with_kept
from tuner.storage.sqlite_errors import one_line

URLS = (
    "postgresql+none://ann:s3cret@db.here/tuner",
    "postgresql+none://ann:s3cret@db.here:port/tuner",
    "postgresql+none://ann:s3c@ret@db.here/tuner",
    "postgresql+none://ann:s3c/ret@db.here/tuner",
    "postgresql+none://db.here/tuner?user=ann&password=s3cret",
    "sqlite://ann:s3cret@db.here/tuner.db",
)
COMMANDS = (
    ("run", "conv2", "--device", "cpu"),
    ("list",),
    ("list", "--json"),
    ("show", "conv2"),
    ("best", "conv2"),
    ("export", "conv2"),
    ("compare", "conv2", "--device", "cpu"),
    ("replay", "conv2", "1"),
    ("record", "conv2"),
    ("verify", "conv2"),
)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_password_is_not_printed_by(capsys, tmp_path, monkeypatch, arguments, url):
    monkeypatch.chdir(tmp_path)
    assert _run([*arguments, "--storage", url]) in (1, 2)
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    for part in ("s3cret", "s3c", "ret@", "ret'"):
        assert part not in out + err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot reach pg://ann:a@b@host/db now", "cannot reach pg://ann:***@host/db now"),
        ("pg://ann:secret@host", "pg://ann:***@host"),
        ("pg://ann@host/db?sslpassword=x1&ssl=on", "pg://ann@host/db?sslpassword=***&ssl=on"),
        ("host=a password=secret dbname=b", "host=a password=*** dbname=b"),
        ("sqlite:///studies/tuner.db", "sqlite:///studies/tuner.db"),
        ("sp18/conv2: B=50 at 12:30", "sp18/conv2: B=50 at 12:30"),
    ],
)
def test_passwords_become_stars(text, shown):
    assert hidden(text) == shown


def test_password_in_a_driver_s_message_is_hidden():
    said = OperationalError("select 1", {}, Exception("no route to postgresql://ann:s3cret@host/db\nmore"))
    with pytest.raises(StorageError, match=r"no route to postgresql://ann:\*\*\*@host/db$"), one_line("here", None):
        raise said


def test_suggested_url_has_no_password():
    assert storage_option("postgresql://ann:s3cret@host/db") == " --storage 'postgresql://ann:***@host/db'"


def test_suggested_command_names_a_store_only_where_it_must(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    assert command("show", "conv2", where="studies/tuner.db") == "tune show conv2"
    assert command("show", "conv2", where="sqlite:///studies/tuner.db") == "tune show conv2"
    assert command("show", "my best", where="my own.db") == "tune show 'my best' --storage 'my own.db'"
    assert command("list", where="/srv/t.db") == "tune list --storage /srv/t.db"
    monkeypatch.setenv("TUNER_STORAGE", "my own.db")
    assert command("list", where="my own.db") == "tune list"
    assert command("list", where="studies/tuner.db") == "tune list --storage studies/tuner.db"
    monkeypatch.setenv("TUNER_STORAGE", "no://such:thing@here:port")
    assert command("list", where="studies/tuner.db") == "tune list --storage studies/tuner.db"


def test_store_is_shown_as_it_would_be_typed_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_location("a/b.db").shown == "a/b.db"
    assert find_location(tmp_path.parent / "b.db").shown == str(tmp_path.parent / "b.db")


def test_suggestions_at_the_end_of_a_run_can_be_copied(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("c=2,h=12,w=11,m=3,k=3", "--batch", "9", "--template", "direct", "--trials", "6", "--device", "cpu")
    assert _run(["run", *small, "--storage", "my own.db"]) == 0
    out = capsys.readouterr().out
    suggested = [line.strip() for line in out.split("next:")[1].splitlines() if line.startswith("  tune ")]
    assert [line.split()[1] for line in suggested] == ["show", "export", "dashboard"]
    for line in suggested[:2]:
        assert "'my own.db'" in line
        assert _run(shlex.split(line)[1:]) == 0, line
    assert list(Path().glob("*_best.h"))


OURS = "# sp18/conv2 on a CPU\n\nThe fastest correct configuration of a convolution kernel: B=50.\n- **Trials:** 4 ok\n"
OLD = f"{OURS}- **Export the winner:** `tune export`\n"
EXPLAINED = "\n## What matters, by 40 trials of direct\n\n| a |\n\n```text\nplot\n```\n"


@pytest.mark.parametrize(
    ("before", "above", "below"),
    [
        ("", "", ""),
        (OLD, "", ""),
        (OLD + EXPLAINED, "", ""),
        (f"{OLD}Try a wider tile.\n", "", "Try a wider tile.\n"),
        (f"{OLD}{EXPLAINED}Try a wider tile.\n", "", "Try a wider tile.\n"),
        (f"My machine.\n{OLD}", "My machine.\n", ""),
        ("Only mine.", "", "Only mine."),
        (f"Above.\n\n{OURS}\n{END}\nBelow.\n# on", "Above.\n\n", "Below.\n# on"),
        (f"All of it is gone.\n{END}\nBelow.", "", "All of it is gone.\n\nBelow."),
    ],
)
def test_what_people_wrote_in_a_note_stays(before, above, below):
    new = OURS.replace("4 ok", "9 ok")
    once = with_kept(new, before)
    assert once == f"{above}{new}\n{END}\n{below}"
    assert with_kept(new, once) == once


def test_note_is_written_anew_whatever_the_kind_of_problem():
    gemm = StudyKey(
        problem="gemm/N5K7", shape=(9, 5, 7), device_kind="cpu", device_model="Test CPU", precision="fp32",
        protocol="1", space_digest="space", templates=("tiled",), kind="gemm",
    )  # fmt: skip
    for key in (toy_key(), gemm):
        before, now = (explain(key, ENVIRONMENT, {"ok": count}, None, find_location("my.db")) for count in (4, 9))
        assert with_kept(now, f"Mine.\n{with_kept(before, '')}Mine too.") == f"Mine.\n{with_kept(now, '')}Mine too."


def test_no_command_is_suggested_for_a_store_that_is_none():
    with pytest.raises(TunerError, match="is not a URL"):
        storage_option("no://such:thing@here:port")
