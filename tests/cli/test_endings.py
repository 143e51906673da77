"""How a command ends that is ended from outside, or by an error that nobody raised on purpose: one line, its code."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.cli import _run, cli
from tuner.cli.support.failing import DEBUG
from tuner.errors import DeviceError, Unforeseen
from tuner.tuning.interrupt import Interrupt, interruptible

COMMAND = """
import signal, sys, time
import click
from tuner.cli import cli, main

@cli.command()
def wait():
    try:
        print("waiting", flush=True)
        time.sleep(600)
    finally:
        if "stubborn" in sys.argv:
            print("tidying", flush=True)
            time.sleep(600)

if "nohup" in sys.argv:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
main(["wait"])
"""


def started(*words: str, code: str = COMMAND) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )


def until(running: subprocess.Popen[str], word: str) -> None:
    assert running.stdout is not None
    assert running.stdout.readline().strip() == word


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_a_command_in_one_line(ending):
    with started() as running:
        until(running, "waiting")
        running.send_signal(ending)
        _, err = running.communicate(timeout=300)
    assert (running.returncode, err.strip()) == (130, "tune: interrupted; what was finished is in the store")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_second_signal_ends_a_command_at_once(ending):
    with started("stubborn") as running:
        until(running, "waiting")
        running.send_signal(ending)
        until(running, "tidying")
        running.send_signal(ending)
        _, err = running.communicate(timeout=300)
    assert (running.returncode, err.strip()) == (130, "tune: ended at once; what was finished is in the store")


def test_signal_that_is_ignored_stays_so():
    with started("nohup") as running:
        until(running, "waiting")
        running.send_signal(signal.SIGHUP)
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=300)
    assert (running.returncode, err.strip()) == (130, "tune: interrupted; what was finished is in the store")


IMPORTING = """
import importlib.abc, sys, time

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "tuner.cli":
            print("importing", flush=True)
            time.sleep(600)

sys.meta_path.insert(0, Slow())
from tuner.__main__ import main
main()
"""


def test_ctrl_c_during_imports_leaves_no_traceback():
    with started(code=IMPORTING) as running:
        until(running, "importing")
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (-signal.SIGINT, "")


def test_ctrl_c_in_the_middle_of_a_line_is_noted():
    def says(_line: str) -> None:
        raise RuntimeError("reentrant call inside <_io.BufferedWriter>")

    before = signal.getsignal(signal.SIGINT)
    interrupt = Interrupt()
    with interruptible(says, interrupt):
        signal.raise_signal(signal.SIGINT)
        assert interrupt
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_is_only_taken_from_who_takes_it_for_ctrl_c():
    """A program that calls ``tune()`` ends by SIGTERM as before."""
    with interruptible(lambda line: None, Interrupt()):
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.fixture
def failing(monkeypatch):
    """Return a function that lets ``tune layers`` raise an error, and returns its exit code."""

    def run(error: BaseException) -> int:
        def callback(**_: object) -> None:
            raise error

        monkeypatch.setattr(cli.commands["layers"], "callback", callback)
        return _run(["layers"])

    return run


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            MemoryError("Unable to allocate 200. GiB"),
            "out of memory: Unable to allocate 200. GiB; close",
        ),
        (RecursionError("maximum recursion depth exceeded"), "RecursionError: maximum recursion depth exceeded; "),
        (ValueError("first\nsecond"), "ValueError: first; TUNER_DEBUG=1 shows where"),
        (PermissionError(errno.EACCES, "Permission denied", "/a/b"), "/a/b: Permission denied; TUNER_DEBUG=1"),
        (OSError(errno.EFBIG, "File too large"), "raise it with ulimit -f"),
        (OSError(errno.EMFILE, "Too many open files"), "raise the limit with ulimit -n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_of_a_library_is_one_line(failing, capfd, error, says):
    assert failing(error) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("tune: ")
    assert says in err
    assert err.count("\n") == 1


def test_traceback_is_shown_to_who_asks_for_it(failing, capfd, monkeypatch):
    monkeypatch.setenv(DEBUG, "1")
    assert failing(ValueError("odd")) == 1
    assert "Traceback" in capfd.readouterr().err
    error = DeviceError("device cpu: LogicError: clFoo failed")
    error.__cause__ = Unforeseen("LogicError: clFoo failed", "the other process's traceback")
    assert failing(error) == 1
    assert "the other process's traceback" in capfd.readouterr().err


def test_folder_that_is_gone_is_said(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, sys; os.rmdir(os.getcwd()); from tuner.cli import main; main(['run', 'conv2', '--storage', 'x.db'])"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert (done.returncode, done.stderr) == (
        1,
        "tune: the folder that this was started in is gone; cd to another one\n",
    )
