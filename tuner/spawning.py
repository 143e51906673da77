"""Processes that start without the user's script: no ``__main__`` guard is needed, and a notebook or stdin works too.

``multiprocessing`` lets every process it spawns run the main module again, so that what is pickled there can be found.
Nothing that is sent to ours is from there.
"""

from __future__ import annotations

from multiprocessing import popen_spawn_posix, spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from types import FunctionType, SimpleNamespace
from typing import Any

_MAIN = ("init_main_from_name", "init_main_from_path")


def _preparation_data(name: str) -> dict[str, Any]:
    """Return what a new process is told, but for where its parent's main module lies."""
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
