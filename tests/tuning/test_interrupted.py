"""Ctrl-C and SIGTERM wherever a run is: the table so far, the winner among what is settled, what to do, exit 130."""

from __future__ import annotations

import json
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest
from command import tune
from faulty import faulty
from small_run import LAYER
from stand_in import InstantCompiler, InstantWorker

from tuner.bench.worker import Worker
from tuner.cli import run
from tuner.errors import TunerError
from tuner.processes.pool import Processes
from tuner.tuning import RunOptions, pipeline, session

ENDINGS = pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
GO_ON = "interrupted: finished trials are stored; run the same command to continue"


class Pressed(InstantWorker):
    """Signals its process in the finals' pass of that number, whose measurements are lost."""

    passes, press_in, ending = 0, 0, signal.SIGINT

    def seconds_of(self, source):
        return 1.0

    def finals(self, tasks, heat, unless=False):
        Pressed.passes += 1
        if Pressed.passes == self.press_in:
            signal.raise_signal(self.ending)
            return []
        return [(1.0 + number,) * heat.most for number in range(len(tasks))]


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command on a stand-in of a device, pressed in a pass of the finals (0: never)."""
    store = f"sqlite:///{tmp_path}/tuner.db"
    monkeypatch.setattr(pipeline, "Compiler", InstantCompiler)
    monkeypatch.setattr(session, "Worker", lambda *_: Pressed())
    options = RunOptions(
        problem=LAYER, device="cuda:0", templates=(faulty("none", threads=(8, 64)),), storage=store, sampler="grid"
    )
    monkeypatch.setattr(run, "_run_options", lambda given: options)

    def asked(*words, press_in=0, ending=signal.SIGINT):
        Pressed.passes, Pressed.press_in, Pressed.ending = 0, press_in, ending
        code, out, err = tune(capsys, "run", "conv2", "--storage", store, *words)
        return code, out, err

    return asked


@ENDINGS
def test_finals_that_are_interrupted_end_with_the_table(ask, ending):
    code, out, err = ask(press_in=1, ending=ending)
    assert (code, err) == (130, "")
    assert "fastest so far" in out
    assert "no winner yet: nothing was confirmed" in out
    assert "next:\n  tune show" in out
    assert "tune export" not in out
    assert out.rstrip().endswith(GO_ON)
    code, out, _ = ask()
    assert code == 0
    assert "*0" in out


def test_earlier_winner_stays_where_new_finals_are_interrupted(ask):
    assert ask()[0] == 0
    code, out, _ = ask(press_in=1)
    assert code == 130
    assert "*0" in out
    assert "tune export" in out


@ENDINGS
def test_preparing_that_is_interrupted_says_that_nothing_was_confirmed(ask, monkeypatch, ending):
    monkeypatch.setattr(session, "Worker", lambda *_: signal.raise_signal(ending))
    code, out, err = ask()
    assert (code, err) == (130, "")
    assert " ".join(out.split()).endswith(f"no winner yet: nothing was confirmed {GO_ON}")
    code, out, _ = ask("--json")
    assert (code, json.loads(out)["winner"], json.loads(out)["reason"]) == (130, None, "interrupted")


def test_preparing_that_is_interrupted_shows_what_earlier_runs_found(ask, monkeypatch):
    assert ask()[0] == 0
    monkeypatch.setattr(session, "Worker", lambda *_: signal.raise_signal(signal.SIGINT))
    code, out, err = ask()
    assert (code, err) == (130, "")
    assert "0 new trials, 2 known before" in out
    assert "*0" in out
    assert "tune export" in out
    assert out.rstrip().endswith(GO_ON)


def test_call_of_a_worker_ends_with_its_process_when_it_is_to():
    worker, pool = Worker.__new__(Worker), Processes(1)
    try:
        worker.__dict__.update(spec=600.0, _processes=pool)
        with pytest.raises(TunerError, match="ended before it was done"):
            worker.ask(time.sleep, unless=True)
        assert pool.schedule(abs, -7, limit=300.0).result() == 7
    finally:
        pool.close()


def test_finals_that_are_to_end_look_at_nothing_by_itself(monkeypatch):
    worker = Worker.__new__(Worker)
    monkeypatch.setattr(worker, "__dict__", {"_finals": lambda *_: []})
    task: Any = SimpleNamespace()
    heat: Any = SimpleNamespace()
    assert worker.finals([task], heat, True) == []
