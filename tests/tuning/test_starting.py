"""What is said before a run begins: arguments and the store first, and a Python that can start no process."""

from __future__ import annotations

import dataclasses
import os
from multiprocessing import spawn
from pathlib import Path

import pytest
from command import tune
from toy_progress import RESULT, progress
from toy_store import ENVIRONMENT, TEMPLATES, toy_key, toy_ok

from tuner.cli.support.live import Headed, headline
from tuner.errors import TunerError
from tuner.processes import stages
from tuner.processes.pool import Processes
from tuner.storage import Store
from tuner.tuning import Observer

LACKS = "#!/bin/sh\necho Traceback >&2\necho \"ModuleNotFoundError: No module named 'pebble'\" >&2\nexit 1\n"


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (None, "cannot be run (No such file or directory)"),
        (("", 0o644), "cannot be run (Permission denied)"),
        (("#!/bin/sh\nexit 7\n", 0o755), "failed (exit code 7)"),
        ((LACKS, 0o755), "failed (ModuleNotFoundError: No module named 'pebble')"),
    ],
    ids=["gone", "not mine", "broken", "lacks a module"],
)
def test_python_that_cannot_start_is_one_line(tmp_path: Path, monkeypatch, capfd, file, says):
    python = tmp_path / "python"
    if file is not None:
        python.write_text(file[0])
        python.chmod(file[1])
    monkeypatch.setattr(spawn, "_python_exe", os.fsencode(python))
    pool = Processes(1)
    try:
        error = pool.schedule(abs, -7, limit=300.0).exception()
    finally:
        pool.close()
    assert isinstance(error, TunerError)
    assert f"Python {python} {says}; install the tuner into a virtual environment" in str(error)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "command",
    [
        ["list", "--storage", "/nowhere/at/all.db"],
        ["show", "conv2", "--storage", "x.db"],
        ["run", "conv2", "--storage", "/nowhere/at/all.db"],
        ["merge", "/nowhere/other.db", "--storage", "x.db"],
        ["templates", "--template", "mine.py"],
        ["run", "conv9"],
    ],
    ids=" ".join,
)
def test_folder_that_is_gone_is_the_cause(tmp_path, monkeypatch, capsys, command):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, _, err = tune(capsys, *command)
    assert (code, err) == (1, "tune: the folder that this was started in is gone; cd to another one\n")


def test_python_that_is_wrong_is_said_before_a_missing_kernel(tmp_path, capsys):
    (tmp_path / "syn.py").write_text("x = 1\ndef y(:\n")
    code, out, err = tune(capsys, "run", "conv2", "--template", str(tmp_path / "syn.py"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.index("syn.py:2: SyntaxError") < err.index("there is no file")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--jobs", "0"], "--jobs 0: no process would compile; give 1 to "),
        (["--time", "0"], "--time 0: nothing"),
        (["--trial-timeout", "0s"], "--trial-timeout 0: no trial"),
        (["--storage", "/nowhere/x.db"], "storage /nowhere/x.db: folder /nowhere does not exist"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_wrong_arguments_are_said_before_the_layer(capsys, words, says):
    code, out, err = tune(capsys, "run", "conv2", "--device", "cpu", "--template", "direct", *words)
    assert (code, out) == (2, "")
    assert says in err


class Said(Observer):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def says(self, line: str) -> None:
        self.lines.append(line)

    def doing(self, what: str) -> None:
        self.lines.append(f"({what})")


def test_layer_is_said_once_the_device_is_open():
    watcher = Said()
    headed = Headed("the layer", watcher)
    headed.doing(stages.OPENING)
    assert watcher.lines == [f"({stages.OPENING})"]
    headed.doing("images")
    headed.says("news")
    headed.trial(RESULT, progress())
    assert watcher.lines[1:] == ["the layer", "(images)", "news"]


@pytest.fixture
def store(tmp_path):
    """A store with a small study of a template of one's own, which is called mine."""
    where = f"sqlite:///{tmp_path}/tuner.db"
    key = dataclasses.replace(toy_key(), problem="sp18/conv2", sources=(("mine", "/a/mine.py"),))
    with Store.open(where) as opened:
        opened.study(key, ENVIRONMENT, TEMPLATES).record(toy_ok(1, 1e-3))
    return where


def test_unknown_study_of_a_template_of_ones_own_names_a_near_one(store, capsys):
    code, _, err = tune(capsys, "run", "mime@conv2", "--storage", store)
    assert (code, err.count("\n")) == (2, 1)
    assert "study 'mime@conv2' is not in " in err
    assert err.endswith("did you mean 'mine@conv2'?\n")


def test_study_that_is_too_small_to_explain_is_no_wrong_usage(store, capsys):
    code, out, err = tune(capsys, "show", "mine@conv2", "--explain", "--storage", store)
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("nothing explained: ")
    assert "fastest trials" in out


def test_line_of_a_template_without_a_naive_figure_leaves_it_out():
    line = headline(progress(best=RESULT))
    assert "naive" not in line
    assert "- " not in line
    assert "2.0x naive" in headline(progress(best=RESULT, naive=2e-3))
