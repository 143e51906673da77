"""Processes that start without the user's script: no ``__main__`` guard is needed, and a notebook or stdin works too.

``multiprocessing`` lets every process it spawns run the main module again, so that what is pickled there can be found.
Nothing that is sent to ours is from there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import popen_spawn_posix, resource_tracker, spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from types import FunctionType, SimpleNamespace
from typing import Any

from tuner.errors import TunerError

QUIET = "ignore:resource_tracker:UserWarning"  # it would complain in the terminal of a run that was killed
OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
_MAIN = ("init_main_from_name", "init_main_from_path")


def _preparation_data(name: str) -> dict[str, Any]:
    """Return the preparation data of a new process, without the location of its parent's main module."""
    return {key: value for key, value in spawn.get_preparation_data(name).items() if key not in _MAIN}


_SPAWN = SimpleNamespace(
    get_preparation_data=_preparation_data,
    get_command_line=spawn.get_command_line,
    get_executable=spawn.get_executable,
)


class _Launch(popen_spawn_posix.Popen):
    """Python's own launch, which sees ``spawn`` as above."""

    _launch = FunctionType(
        popen_spawn_posix.Popen._launch.__code__,  # type: ignore[attr-defined]
        {**vars(popen_spawn_posix), "spawn": _SPAWN},
    )


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process: Any) -> Any:
        return _Launch(process)


class _Context(SpawnContext):
    Process = _Process


WITHOUT_MAIN = _Context()

_PROBE = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "import multiprocessing.spawn, pebble, tuner.processes.beginning, tuner.processes.messages"
)
_PROBE_SECONDS = 120.0


def check_python() -> None:
    """Refuse to start processes with a Python that cannot: they would die without a word, or with a traceback.

    Raises:
        TunerError: It is not there, not this user's to run, or lacks a module; one line with the remedy.
    """
    executable = os.fsdecode(spawn.get_executable() or b"")
    if why := _why_not(executable, tuple(sys.path)):
        raise TunerError(
            f"no process can be started: Python {executable or '(sys.executable is empty)'} {why}; install the tuner "
            "into a virtual environment of your own, and start tune from there"
        )


@cache
def _why_not(executable: str, path: tuple[str, ...]) -> str:
    try:
        tried = subprocess.run(
            [executable, "-c", _PROBE, *path],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not answer in {_PROBE_SECONDS:.0f} s"
    except (OSError, ValueError) as error:
        return f"cannot be run ({getattr(error, 'strerror', None) or error})"
    if tried.returncode == 0:
        return ""
    said = [line.strip() for line in tried.stderr.splitlines() if line.strip()]
    return f"failed ({said[-1] if said else f'exit code {tried.returncode}'})"


@contextmanager
def ctrl_c_blocked() -> Iterator[None]:
    """Block SIGINT: threads and processes started meanwhile keep it blocked, from their first instruction on.

    What a process does first comes too late to ignore it: a Python that is interrupted while it starts prints a
    traceback.
    """
    if QUIET not in sys.warnoptions:  # which Python hands on to the processes it starts
        sys.warnoptions.append(QUIET)
    resource_tracker.ensure_running()  # it would unblock the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
