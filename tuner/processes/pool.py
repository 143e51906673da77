"""Pools of processes with a scratch folder, out of Ctrl-C's reach: their keeper decides when they end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from tuner.errors import TunerError
from tuner.processes import messages
from tuner.processes.beginning import Setting, begin
from tuner.processes.scratch import Scratch, is_full
from tuner.processes.spawning import OUTSIDE, WITHOUT_MAIN, check_python, ctrl_c_blocked

T = TypeVar("T")
LOG = "{pid}.log"
MOST_SAID = 2000  # bytes of it
DIED = (ProcessExpired, BrokenProcessPool)


class Processes:
    """A pool whose processes start when first needed.

    Attributes:
        folder: The pool's scratch folder; gone after :meth:`close`.

    Args:
        number: Processes.
        log: Keep their messages for :meth:`said`.
        nice: Their niceness: how much they yield to other processes.

    Raises:
        TunerError: There is no room for a folder, or the system allows no process or semaphore; one line.
    """

    def __init__(self, number: int, log: bool = False, nice: int = 0) -> None:
        self._number = number
        self._scratch = Scratch()
        self.folder = self._scratch.folder
        self._setting = Setting(
            log=str(self.folder / LOG) if log else os.devnull,
            scratch=str(self.folder),
            nice=nice,
            keeper=os.getpid(),
        )
        self._pool = self._fresh()

    def _fresh(self) -> ProcessPool:
        return ProcessPool(
            max_workers=self._number,
            context=WITHOUT_MAIN,
            initializer=begin,
            initargs=(self._setting,),
        )

    def schedule(self, function: Callable[..., T], *arguments: Any, limit: float) -> Future[T]:
        """Call ``function(*arguments)`` in one of the processes, which is killed after ``limit`` seconds.

        The future raises TimeoutError then, one of ``DIED`` when the process ends before the function does, and else
        nothing but a TunerError: :class:`~tuner.errors.Unforeseen` where the function raised another kind.
        """
        wanted: Future[T] = Future()
        try:
            answered = self._send(messages.packed(function, arguments), limit)
        except TunerError as error:
            wanted.set_exception(error)
        else:
            answered.add_done_callback(lambda done: messages.pass_on(done, wanted))
        return wanted

    def _send(self, payload: bytes, limit: float) -> Future[bytes]:
        check_python()
        try:
            with ctrl_c_blocked():
                if not self._pool.active:  # it breaks when a process dies that has nothing to do
                    self._pool.stop()
                    self._pool.join()
                    self._pool = self._fresh()
                future: Future[bytes] = self._pool.schedule(messages.call, args=[payload], timeout=limit)
        except OSError as error:
            raise TunerError(_no_start(error)) from error
        return future

    def said(self, error: BaseException) -> str:
        """Return the last messages of the process whose end ``error`` tells; nothing where it left none."""
        path = self.folder / LOG.replace("{pid}", str(getattr(error, "pid", None)))
        return path.read_text(errors="replace")[-MOST_SAID:].strip() if path.exists() else ""

    def check_room(self) -> None:
        """Refuse to blame a configuration for what a full disk may have done.

        Raises:
            TunerError: The disk of the scratch folder is full.
        """
        if is_full(self.folder):
            raise TunerError(
                f"the disk of {self.folder.parent} is full, and nothing can be compiled; free some space or set "
                "TMPDIR, and run again: what is finished is stored"
            )

    def stop(self) -> None:
        """End the processes; the next call starts others."""
        self._pool.stop()
        self._pool.join()

    def close(self) -> None:
        """End the processes, and remove their folder."""
        self.stop()
        self._scratch.close()


def _no_start(error: OSError) -> str:
    return (
        f"no process can be started ({error.strerror or error}); it takes a writable /dev/shm, free memory, and "
        "processes and open files within ulimit -u and -n"
    )


def stillborn(error: BaseException) -> str:
    """Return why a process could not even be started; nothing where that is not what has happened."""
    if not isinstance(error, BrokenProcessPool):
        return ""
    return _no_start(error.__cause__) if isinstance(error.__cause__, OSError) else "its process ended while it started"


def killer(error: BaseException) -> str:
    """Return how a process was killed from outside, by a signal that nothing it runs sends itself; else nothing."""
    code = getattr(error, "exitcode", None)
    return from_outside(signal.Signals(-code)) if code in OUTSIDE else ""


def from_outside(by: signal.Signals) -> str:
    """Say that something was killed from outside."""
    return f"was killed from outside ({by.name}{', as when memory runs out' if by == signal.SIGKILL else ''})"
