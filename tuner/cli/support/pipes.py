"""Output whose reader or terminal has gone, as behind ``head``: the rest is thrown away, and the work goes on."""

from __future__ import annotations

import errno
import os
from typing import Any, TextIO

GONE = (errno.EPIPE, errno.EIO)  # errors after a reader has ended or a terminal was closed


class Outlet:
    """A text stream that discards its output once it is no longer read."""

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
        """Redirect the stream to nowhere, including what it still buffers.

        Raises:
            OSError: The error has another cause than a closed pipe or terminal.
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
