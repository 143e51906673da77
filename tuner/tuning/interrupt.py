"""Ctrl-C during a run: the first stops it after the current step, the second aborts at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

Handler = Callable[[int, FrameType | None], object]
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOTED = "interrupted: ending what is in flight; Ctrl-C again ends at once"


class Interrupt:
    """Whether Ctrl-C was pressed; false until then."""

    def __init__(self) -> None:
        self._pressed = False

    def __bool__(self) -> bool:
        return self._pressed

    def press(self) -> None:
        self._pressed = True


@contextmanager
def interruptible(says: Callable[[str], None], interrupt: Interrupt) -> Iterator[None]:
    """Turn the first Ctrl-C into a flag, so that it never interrupts a write or a held lock.

    The second one has its previous effect, also in other threads. SIGTERM and SIGHUP are treated alike if they have a
    handler of their own, as in the command.

    Args:
        interrupt: The flag to set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Handler] = {each: handler for each in ENDING if callable(handler := signal.getsignal(each))}

    def handle(signum: int, frame: FrameType | None) -> None:
        if interrupt:
            before[signum](signum, frame)
        interrupt.press()
        with suppress(RuntimeError, OSError):  # another line is being written, or the terminal was closed
            says(NOTED)

    for each in before:
        signal.signal(each, handle)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
