"""Ctrl-C during a run: the first one is a wish, noted and honoured between two steps; the second ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether Ctrl-C was pressed; false until then."""

    def __init__(self) -> None:
        self._pressed = False

    def __bool__(self) -> bool:
        return self._pressed

    def press(self) -> None:
        self._pressed = True


@contextmanager
def interruptible(says: Callable[[str], None]) -> Iterator[Interrupt]:
    """Turn the first Ctrl-C into a note, so that it never lands in the middle of a write or of a lock.

    The second one raises ``KeyboardInterrupt`` as usual. Outside the main thread nothing changes.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        if interrupt:
            raise KeyboardInterrupt
        interrupt.press()
        says("interrupted: ending the trial in flight; Ctrl-C again ends at once")

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous)
