"""Pools of processes with a scratch folder, out of Ctrl-C's reach: their keeper decides when they end."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from tuner.spawning import WITHOUT_MAIN
from tuner.workshop import begin

T = TypeVar("T")
QUIET = "ignore:resource_tracker:UserWarning"  # it would complain in the terminal of a run that was killed
DIED = (ProcessExpired, BrokenProcessPool)


class Processes:
    """A pool whose processes start when first needed.

    Attributes:
        folder: The pool's scratch folder; gone after :meth:`close`.

    Args:
        number: Processes.
        log: Name of the file in ``folder`` that gets their messages; None to drop them.
        nice: By how much they give way to other processes.
    """

    def __init__(self, number: int, log: str | None = None, nice: int = 0) -> None:
        self._number, self._log, self._nice = number, log, nice
        self._scratch = tempfile.TemporaryDirectory(prefix="tuner-", ignore_cleanup_errors=True)
        self.folder = Path(self._scratch.name)
        self._pool = self._fresh()

    def _fresh(self) -> ProcessPool:
        return ProcessPool(
            max_workers=self._number,
            context=WITHOUT_MAIN,
            initializer=begin,
            initargs=(str(self.folder / self._log) if self._log else os.devnull, self._scratch.name, self._nice),
        )

    def schedule(self, function: Callable[..., T], *arguments: Any, limit: float) -> Future[T]:
        """Call ``function(*arguments)`` in one of the processes, which is killed after ``limit`` seconds.

        The future raises TimeoutError then, and one of ``DIED`` when the process ends before the function does.
        """
        with _ctrl_c_blocked():
            if not self._pool.active:  # it breaks when a process dies that has nothing to do
                self._pool.stop()
                self._pool.join()
                self._pool = self._fresh()
            future: Future[T] = self._pool.schedule(function, args=list(arguments), timeout=limit)
        return future

    def close(self) -> None:
        """End the processes."""
        self._pool.stop()
        self._pool.join()
        self._scratch.cleanup()


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Block SIGINT: threads and processes started meanwhile keep it blocked, from their first instruction on.

    ``begin`` comes too late to ignore it: a Python that is interrupted while it starts prints a traceback.
    """
    if QUIET not in sys.warnoptions:  # which Python hands on to the processes it starts
        sys.warnoptions.append(QUIET)
    resource_tracker.ensure_running()  # it would unblock the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
