"""A process that is killed from outside says nothing of the configuration it worked on: that is tried again."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import pytest
from faulty import faulty
from pebble import ProcessExpired
from small_run import Silent
from toy_store import ENVIRONMENT

from tuner.bench.protocol import Verdict
from tuner.bench.worker import Worker
from tuner.devices.compiler import MOST_KILLED, Compiled, Compiler
from tuner.devices.nvcc import KILLED
from tuner.errors import Killed, TunerError
from tuner.problems.conv.layers import find_layer
from tuner.processes.pool import Processes
from tuner.storage import Store
from tuner.tuning import RunOptions
from tuner.tuning.session import tune

LAYER = find_layer("C=2,H=12,W=11,M=3,K=3", batch=9)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(folder, *, fault="none", threads=(8, 16)):
    watcher = Silent()
    options = RunOptions(
        problem=LAYER,
        device="cpu",
        templates=(faulty(fault, threads=threads),),
        storage=f"sqlite:///{folder}/tuner.db",
        sampler="grid",
        jobs=1,
    )
    return tune(options, watcher), watcher.lines


@pytest.fixture
def killed_first(monkeypatch):
    """Return a function that lets the first calls of a method that starts something in a process kill that instead."""

    def kill(owner: type, name: str, times: int) -> None:
        left, start = [times], getattr(owner, name)

        def starts(self, *arguments):
            if not left[0]:
                return start(self, *arguments)
            left[0] -= 1
            return self._processes.schedule(die, limit=300.0)

        monkeypatch.setattr(owner, name, starts)

    return kill


def test_killed_worker_and_compiler_are_no_verdict(tmp_path, killed_first):
    killed_first(Worker, "start", 1)
    killed_first(Compiler, "submit", 1)
    report, lines = run(tmp_path)
    assert {result.outcome for result in report.failed} == set()
    assert (report.reason, report.progress.done, report.progress.outcomes["ok"]) == ("exhausted", 2, 2)
    again = [line for line in lines if "tried again later" in line]
    assert [line.split(" was ")[0] for line in again] == ["the compiler", "the worker"]
    assert all("killed from outside (SIGKILL, as when memory runs out)" in line for line in again)
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as store:
        assert store.find_study(report.progress.study).claims() == []


def test_killed_each_time_is_crashed_in_the_end(tmp_path, killed_first):
    killed_first(Worker, "start", MOST_KILLED)
    report, _ = run(tmp_path, threads=(8,))
    assert [result.outcome for result in report.failed] == ["crashed"]
    assert report.failed[0].text.startswith("the worker was killed from outside (SIGKILL")
    assert report.progress.done == 1


def test_suspect_of_an_interrupted_run_counts_once(tmp_path):
    first, _ = run(tmp_path)
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as store:
        handle = store.find_study(first.progress.study)
        (configuration, _) = (result.configuration for result in handle.results())
        with store.database.writing() as connection:
            connection.exec_driver_sql("UPDATE tuner_result SET suspect = 1 WHERE number = 0")
        assert handle.suspects() == [configuration]
    second, lines = run(tmp_path)
    assert any("trying a suspect" in line for line in lines)
    assert (second.progress.known, second.progress.done) == (1, 1)


def test_full_disk_ends_the_run_and_blames_no_configuration(tmp_path, monkeypatch):
    monkeypatch.setattr("tuner.processes.pool.is_full", lambda folder: True)
    with pytest.raises(TunerError, match=r"the disk of .* is full"):
        run(tmp_path, fault="hash_error", threads=(8,))
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as store:
        handle = store.find_study(store.studies()[0].name)
        assert (handle.results(), handle.claims()) == ([], [])


def test_part_of_nvcc_that_was_killed_is_told_from_one_that_failed():
    assert KILLED.search("nvcc error   : 'cicc' died due to signal 9 (Kill signal)")
    assert not KILLED.search("nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)")


KILLS = """#!/bin/sh
[ -e {folder}/killed ] || {{ touch {folder}/killed; kill -9 $PPID; }}
exit 1
"""
KERNEL = "__kernel void k(__global float *y) { y[get_global_id(0)] = 3.25f; }"


def test_linker_killed_during_a_build_is_no_verdict_on_the_source(tmp_path, monkeypatch):
    """PoCL ends its process when its linker does not come back; the next attempt links."""
    system = tmp_path / "ld"
    system.write_text(KILLS.format(folder=tmp_path))
    system.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TUNER_CACHE_DIR", str(tmp_path / "cache"))
    compiler = Compiler(ENVIRONMENT, 1, 300.0)
    try:
        with pytest.raises(Killed, match=r"the compiler's linker was killed from outside \(SIGKILL"):
            compiler.result(compiler.submit(KERNEL))
        assert compiler.result(compiler.submit(KERNEL)).binary
    finally:
        compiler.close()


@pytest.mark.parametrize(("said", "killed"), [("unable to execute command: Killed", True), ("no memory", False)])
def test_linker_killed_while_a_worker_prepares_is_no_verdict_on_its_task(said, killed):
    worker = Worker.__new__(Worker)
    worker._processes, worker.restarts = Processes(1, log=True), 0
    future: Future[Verdict] = Future()
    future.set_exception(ProcessExpired("Abnormal termination", code=-signal.SIGABRT, pid=77))
    try:
        (worker._processes.folder / "78.log").write_text("unable to execute command: Terminated")
        (worker._processes.folder / "77.log").write_text(f"error: {said}\nFinal linking of kernel k failed.\n")
        verdict = worker.finish(future)
    finally:
        worker.close()
    assert (verdict.outcome, verdict.killed) == ("crashed", killed)
    assert verdict.evaluation.text.startswith(
        "the worker's linker was killed" if killed else "the worker died with SIGABRT\nerror"
    )


def test_compiler_whose_process_died_before_it_began_is_no_verdict():
    """The pool breaks when a process dies that has nothing to do, and gives up what waits for it."""
    compiler = Compiler(ENVIRONMENT, 1, 300.0)
    waiting: Future[Compiled] = Future()
    waiting.set_exception(BrokenProcessPool("All workers expired"))
    try:
        with pytest.raises(Killed, match="had not begun when its process died"):
            compiler.result(waiting)
    finally:
        compiler.close()
