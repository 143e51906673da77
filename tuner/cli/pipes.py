"""Output whose reader has gone, as behind ``head``: what is left is thrown away, and the work goes on to its end."""

from __future__ import annotations

import os
from typing import Any, TextIO


class Outlet:
    """A text stream that goes on writing to nowhere once nobody reads it any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._let_go()
            return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._let_go()
            self._stream.flush()

    def _let_go(self) -> None:
        """Put nowhere in the pipe's place, for what the stream still holds as well."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def outlet(stream: TextIO | None) -> Any:
    """Return a stream that outlives its reader; what is closed from the start stays so."""
    return None if stream is None else Outlet(stream)
