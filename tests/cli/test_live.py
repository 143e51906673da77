"""What a person sees while a run works: stages, a bar that moves, words whole at any width, colours where they show."""

from __future__ import annotations

import dataclasses
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from concurrent.futures import Future
from fcntl import ioctl
from pathlib import Path

import pytest
from toy_progress import RESULT, progress

from tuner.cli import _run
from tuner.cli.support.live import (
    LiveObserver,
    NotebookObserver,
    PlainObserver,
    Silent,
    counts,
    in_notebook,
    observer,
    share_done,
)
from tuner.cli.support.text import coloured, width
from tuner.kernels.loading import builtin_templates
from tuner.problems.conv.layers import find_layer
from tuner.processes import stages
from tuner.tuning import RunOptions, tune
from tuner.tuning.progress import Observer, tell_doing

TUNE = [sys.executable, "-m", "tuner"]
SMALL = ("c=2,h=12,w=11,m=3,k=3", "--batch", "9", "--template", "direct", "--trials", "6", "--device", "cpu")


def on_terminal(command, columns, cwd, **environment):
    """Run a command on a terminal of so many columns; return its exit status and all that it wrote."""
    try:
        keeper, terminal = pty.openpty()
    except OSError as error:  # a bare chroot has no /dev/pts
        pytest.skip(f"no terminal can be made here: {error}")
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        command, cwd=cwd, stdin=terminal, stdout=terminal, stderr=terminal, env={**kept, "TERM": "xterm", **environment}
    )
    os.close(terminal)
    written = b""
    while select.select([keeper], [], [], 280)[0]:
        try:
            part = os.read(keeper, 65536)
        except OSError:
            break
        written += part
    os.close(keeper)
    return process.wait(60), written.decode(errors="replace")


def test_counts_have_time_speed_compilations_and_failures():
    now = progress(trials=200, seconds=90.0, done=45, compiling=4, begun=2.0)
    now.outcomes.update(ok=43, wrong_result=2, crashed=0)
    assert counts(now, 12.0) == "12 of 90 s, 45 of 200 trials, 4.5 a second, 4 compiling, 2 wrong_result"
    assert counts(progress(), 3.0) == "3 s, 0 trials"
    assert share_done(now, 45.0) == 0.5
    assert share_done(now, 900.0) == 1.0
    assert share_done(progress(), 900.0) == 0.0


def test_trials_a_second_are_those_of_the_search_while_finals_run():
    now = progress(done=40, begun=2.0, searched=12.0)
    assert counts(now, 12.0) == "12 s, 40 trials, 4.0 a second"
    assert counts(now, 22.0) == "22 s, 40 trials, 4.0 a second"


def test_run_knows_when_its_search_was_over(tmp_path):
    asked = RunOptions(
        problem=find_layer("C=2,H=12,W=11,M=3,K=3", 9),
        device="cpu",
        templates=(builtin_templates()["direct"],),
        storage=str(tmp_path / "t.db"),
        sampler="grid",
        trials=3,
        jobs=1,
    )
    report = tune(asked, Observer())
    assert 0 < report.progress.begun < report.progress.searched
    assert report.progress.searched <= report.costs.total - report.costs.finals


@pytest.mark.parametrize("columns", [60, 80])
def test_run_on_a_terminal_breaks_lines_at_words(tmp_path, columns):
    status, written = on_terminal([*TUNE, "run", *SMALL], columns, tmp_path)
    assert status == 0, written
    assert "preparing: " in written
    assert "\x1b[32m" in written  # the winner's row
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).replace("\r", "\n")
    assert [line for line in shown.splitlines() if len(line) > columns and not line.startswith("  tune ")] == []
    assert "tune export C2H12W11M3K3 -o c2h12w11m3k3_best.h" in shown
    assert "Traceback" not in shown


def test_no_color_is_respected(tmp_path):
    status, written = on_terminal([*TUNE, "show", "conv2"], 80, tmp_path, NO_COLOR="1")
    assert (status, written.startswith("tune: "), written.count("tune: ")) == (2, True, 1)
    assert all(len(line) <= 80 for line in written.splitlines())
    assert "\x1b[3" not in written
    status, written = on_terminal([*TUNE, "show", "conv2"], 80, tmp_path)
    assert written.startswith("\x1b[31mtune: ")


def test_quiet_run_prints_the_winner_alone(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _run(["run", *SMALL, "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    name, configuration = out.splitlines()
    assert re.match(r"C2H12W11M3K3 cpu B9 fp32 \w{6}: \S+ ms \+- ", name)
    assert configuration.startswith("direct")
    # A study's name instead of a layer goes on with that very study.
    assert _run(["run", name.split(": ")[0].split()[-1], "--trials", "1", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(name.split(": ")[0])


def test_notebook_has_one_line_that_is_rewritten(capsys):
    with NotebookObserver() as watcher:
        watcher.doing("images and weights")
        for done in range(1, 200):
            watcher.trial(RESULT, progress(done=done, elapsed=done / 10, best=RESULT))
    out = capsys.readouterr().out
    assert "\n" not in out
    assert out.count("\r") > 20
    assert "images and weights" in out
    assert all(len(line) <= 100 for line in out.split("\r"))


def test_notebook_is_told_by_the_kernel_that_runs_or_started_this(monkeypatch):
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    assert isinstance(observer(to_stderr=False), PlainObserver)
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    assert isinstance(observer(to_stderr=False), NotebookObserver)
    monkeypatch.delenv("JPY_PARENT_PID")
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", type("IPython", (), {"get_ipython": staticmethod(lambda: shell)}))
    assert in_notebook()


def test_live_lines_say_the_stage_then_the_trials():
    watcher = LiveObserver()
    watcher.doing("images and weights")
    assert "preparing: images and weights" in _text(watcher)
    watcher.trial(RESULT, progress(done=3, elapsed=1.0, best=RESULT, compiling=2))
    text = _text(watcher)
    assert "best 1.000 ms" in text
    assert "3 trials" in text
    assert "2 compiling" in text
    watcher.doing("finals")
    assert "finals" in _text(watcher)
    assert "preparing" not in _text(watcher)


def _text(watcher):
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=80, force_terminal=True).print(watcher._lines())
    return file.getvalue()


def test_stages_of_a_worker_are_told(tmp_path: Path, monkeypatch):
    monkeypatch.setenv(stages.VARIABLE, str(tmp_path / stages.NAME))
    future: Future[int] = Future()
    told: list[str] = []

    def tell(stage: str) -> None:
        told.append(stage)
        stages.enter("second") if stage == "first" else future.set_result(1)

    stages.enter("first")
    stages.follow(future, tmp_path, tell)
    assert told == ["first", "second"]
    monkeypatch.delenv(stages.VARIABLE)
    stages.enter("nobody listens")


def test_observer_of_the_two_older_methods_is_spared():
    tell_doing(type("Old", (), {"says": print, "trial": print})(), "the store")
    tell_doing(Observer(), "the store")
    with Silent() as watcher:
        watcher.trial(RESULT, progress())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_is_for_terminals_that_want_it(monkeypatch, name, value):
    terminal = type("Terminal", (io.StringIO,), {"isatty": lambda self: True})()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert coloured(terminal)
    assert not coloured(io.StringIO())
    assert not coloured(None)
    monkeypatch.setenv(name, value)
    assert not coloured(terminal)


def test_what_is_piped_is_80_columns_wide(capsys):
    assert width() == 80


def test_verify_says_how_long_it_will_take(capsys, monkeypatch):
    from tuner.problems.conv.dataset import load_test_split

    whole = load_test_split()
    few = dataclasses.replace(whole, images=whole.images[:20], labels=whole.labels[:20])
    monkeypatch.setattr("tuner.problems.conv.dataset.load_test_split", lambda _: few)
    assert _run(["verify", "sp18"]) == 0
    _, err = capsys.readouterr()
    first, second = err.splitlines()
    assert re.fullmatch(r"1 network, 20 images: about \d+ s", first)
    assert re.match(r"\[ +\d+ s\] sp18  10: ", second)
