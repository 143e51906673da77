"""The pools of processes that work for a run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.processes.pool import DIED, Processes
from tuner.storage.processes import start_ticks


def blocked_signals() -> set[int]:
    return {int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


def test_ctrl_c_while_a_process_starts_does_not_reach_it():
    processes = Processes(1)
    try:
        assert signal.SIGINT in processes.schedule(blocked_signals, limit=300.0).result()
    finally:
        processes.close()
    assert signal.SIGINT not in blocked_signals()
    assert not processes.folder.exists()


def test_a_process_that_is_killed_while_idle_is_replaced():
    processes = Processes(1)
    try:
        first = processes.schedule(os.getpid, limit=300.0).result()
        os.kill(first, signal.SIGKILL)
        second = _sooner_or_later(processes)
        assert second != first
        assert processes.folder.exists()
    finally:
        processes.close()


def _sooner_or_later(processes: Processes) -> int:
    """Return the process that answers next: what was handed to the dead one before anybody noticed is lost."""
    for _ in range(3):
        with contextlib.suppress(*DIED):
            return processes.schedule(os.getpid, limit=300.0).result()
    raise AssertionError("no process came back")


def parent_and_child() -> tuple[int, int]:
    """Start what stands for a compiler's own child; return the ids of this process and of that one."""
    return os.getpid(), subprocess.Popen(["sleep", "600"]).pid


def test_stopped_processes_end_without_a_word_and_start_again(capfd, caplog):
    pool = Processes(1)
    try:
        for _ in range(3):
            pool.schedule(time.sleep, 600.0, limit=900.0)
        pool.stop()
        assert pool.schedule(abs, -3, limit=300.0).result() == 3
    finally:
        pool.close()
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_killing_the_keeper_ends_its_processes_and_theirs_without_a_word(tmp_path: Path):
    """What Python's resource tracker says of such a death is no concern of whoever sits at the terminal."""
    script = tmp_path / "keeper.py"
    script.write_text(
        "import os, signal, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_processes import parent_and_child\n"
        "from tuner.processes.pool import Processes\n"
        "processes = Processes(1)\n"
        "print(*processes.schedule(parent_and_child, limit=300.0).result(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stderr == ""
    deadline = time.monotonic() + 120
    for each in done.stdout.split():
        while _runs(int(each)):
            assert time.monotonic() < deadline, "the process outlived its keeper"
            time.sleep(0.05)


def _runs(process: int) -> bool:
    return bool(start_ticks(process))


SCRIPT = """
import os
print("once", flush=True)
from tuner.processes.pool import Processes
processes = Processes(1)
print([processes.schedule(pow, 2, 3, limit=300.0).result() for _ in range(2)], flush=True)
processes.close()
"""


@pytest.mark.parametrize("how", ["file", "stdin", "-c", "-m"])
def test_script_without_a_guard_runs_once(tmp_path: Path, how: str):
    (tmp_path / "plain.py").write_text(SCRIPT)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    given = {"file": [str(tmp_path / "plain.py")], "stdin": ["-"], "-c": ["-c", SCRIPT], "-m": ["-m", "plain"]}[how]
    done = subprocess.run(
        [sys.executable, *given],
        input=SCRIPT if how == "stdin" else "",
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("once\n[8, 8]\n", "")
