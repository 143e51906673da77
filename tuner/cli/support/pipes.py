"""Output whose reader or terminal has gone, as behind ``head``: the rest is thrown away, and the work goes on."""

from __future__ import annotations

import errno
import os
from typing import Any, TextIO

GONE = (errno.EPIPE, errno.EIO)  # a reader has ended, a terminal was closed


class Outlet:
    """A text stream that goes on writing to nowhere once nobody reads it any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._let_go(error)
            return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._let_go(error)
            self._stream.flush()

    def _let_go(self, error: OSError) -> None:
        """Put nowhere in the pipe's place, for what the stream still holds as well.

        Raises:
            OSError: It is another error than that of a pipe or terminal that was closed.
        """
        if error.errno not in GONE:
            raise error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def outlet(stream: TextIO | None) -> Any:
    """Return a stream that outlives its reader; what is closed from the start stays so."""
    return None if stream is None else Outlet(stream)
