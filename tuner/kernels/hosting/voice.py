"""Show what a template prints where our own messages go, without control characters and up to a limit."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import Final

from tuner.kernels.hosting.plain import printable

MOST_SAID: Final = 100_000  # most characters shown of one process
_PART: Final = 1 << 16


class Voice:
    """The end of a pipe that a template's process prints into.

    Args:
        descriptor: Of the reading end; not closed here.
        name: Name of the template's file.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name, self._left = descriptor, name, MOST_SAID
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        os.set_blocking(descriptor, False)

    def hear(self) -> bool:
        """Pass on some of the output; return whether there may be more."""
        try:
            part = os.read(self._descriptor, _PART)
        except BlockingIOError:
            return False
        if part and self._left > 0:
            text = self._decoder.decode(part)
            self._left -= len(text)
            _say(printable(text, len(text)))
            if self._left <= 0:
                _say(f"\n{self._name} prints more than {MOST_SAID:,} letters; the rest is not shown\n")
        return bool(part)

    def hear_out(self) -> None:
        """Pass on the present output, but not endless output of a thread."""
        for _ in range(16):
            if not self.hear():
                return


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # the terminal is gone, or the stream was closed
        sys.stderr.write(text)
        sys.stderr.flush()
