"""Signals that end a command: Ctrl-C, and SIGTERM and SIGHUP alike; a second one ends it at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130
_SHOW_CURSOR = b"\x1b[?25h"  # a live bar hides it


@contextmanager
def like_ctrl_c() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at the first such signal; the next ends this process, whatever it is doing.

    A signal that is ignored, as SIGHUP is under ``nohup``, stays ignored. Child processes end with this process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            _end_at_once()
        pressed = True
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in ENDING}
    for each, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(each, handle)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _end_at_once() -> None:
    with suppress(OSError):
        if sys.stderr and os.isatty(2):
            os.write(2, _SHOW_CURSOR)
        os.write(2, b"\ntune: ended at once; what was finished is in the store\n")
    os._exit(INTERRUPTED)
