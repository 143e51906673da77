"""Lines on a terminal of any width: they break at words, tables do without columns, and pipes get lines whole."""

from __future__ import annotations

import re
import sys

import pytest

from tuner.cli import _fail, _run, cli
from tuner.cli.list import SPARE
from tuner.cli.support.folding import echo, echo_command, fitting, folded, width
from tuner.cli.support.text import table

COMMANDS = sorted(cli.commands)


@pytest.fixture(params=[60, 80, 120])
def columns(request, monkeypatch, capsys):
    """Let what ``capsys`` captures pass for a terminal; pytest puts any other stream back before a test begins."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    return request.param


def written(stream):
    text = stream.getvalue()
    stream.truncate(0)
    stream.seek(0)
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def assert_whole(text, columns, words):
    assert [line for line in text.splitlines() if len(line) > columns] == []
    assert set(words.split()) <= set(text.split())


def test_list_breaks_no_word(columns):
    table(
        "studies",
        ("study", "created", "device", "trials", "winner", "ms", "+-", "template"),
        [("mine@C2H12W11M3K3 cpu B9 fp32 90d975", "2026-11-29 15:05", "cpu", "1,234", "1,001", "1.697", "111.5%", "x")],
        left=("study", "created", "device", "template"),
        spare=SPARE,
    )
    assert_whole(written(sys.stdout), columns, "mine@C2H12W11M3K3 cpu B9 fp32 90d975 1,001 1.697")


def test_error_breaks_at_words_on_a_terminal(columns):
    said = "storage /a/long/path/to/tuner.db: its folder does not exist; create it, or give another path by --storage"
    assert _fail(f"{said} {said}", 2) == 2
    assert_whole(written(sys.stderr), columns, said)


def test_error_in_a_pipe_is_one_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert _fail("word " * 60, 2) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits(columns, command):
    assert _run([*([command] if command else []), "--help"]) == 0
    assert [line for line in written(sys.stdout).splitlines() if len(line) > columns] == []


@pytest.mark.parametrize("command", [["layers"], ["templates"]])
def test_listing_fits(columns, command):
    assert _run(command) == 0
    assert [line for line in written(sys.stdout).splitlines() if len(line) > columns] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_breaks_at_words(columns, command, monkeypatch):
    assert _run([command, "--help"]) == 0
    text = re.sub(r"(?<=\w)-\n *", "-", written(sys.stdout))  # a compound may break at its hyphen
    monkeypatch.setenv("COLUMNS", "1000")
    assert _run([command, "--help"]) == 0
    assert set(text.split()) <= set(written(sys.stdout).split())


def test_simulate_leaves_out_columns(columns, tmp_path):
    file = tmp_path / "a-recording-of-some-layer.csv"
    file.write_text("x,time_ms\n" + "".join(f"{x},{x}\n" for x in range(1, 251)))
    assert _run(["simulate", str(file), "--sampler", "grid", "--seeds", "1"]) == 0
    text = written(sys.stdout)
    assert_whole(text, columns, "a-recording-of-some-layer 5% 1% 1.000")
    assert ("worst" in text) == (columns > 60)


def test_lines_fold_on_a_terminal_alone(columns):
    line = "word " * 40
    echo(line)
    assert_whole(written(sys.stdout), columns, "word")
    echo_command("  tune export " + "'a study of a long name' -o " * 6)
    lines = written(sys.stdout).splitlines()
    assert all(len(each) <= columns for each in lines)
    assert all(each.endswith(" \\") and each.count("'") % 2 == 0 for each in lines[:-1])


def test_piped_lines_stay_whole(capsys):
    echo("word " * 40)
    assert capsys.readouterr().out.count("\n") == 1
    assert width() == 80


def test_folding_keeps_words_and_gives_them_room():
    assert folded("a bc def", 5) == "a bc\n  def"
    assert folded(f"{'x':<25}{'y' * 30}", 40, 25).splitlines()[1] == " " * 10 + "y" * 30
    assert folded("first\nsecond", 80) == "first\nsecond"


def test_columns_are_left_out_before_a_word_is_split():
    cells = [("name", "a" * 20), ("b", "1" * 10), ("c", "2" * 10)]
    assert fitting(cells, 50, [2]) == (3, {0: 20, 1: 10, 2: 10})
    assert fitting(cells, 42, [2]) == (1, {0: 20, 1: 10, 2: 10})
    assert fitting(cells, 40, [2]) == (1, {0: 20, 1: 10})
    assert fitting([("n", "aa bb")], 4, []) == (3, {0: 4})
