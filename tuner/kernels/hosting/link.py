"""Frames between a program and a template's process; the reader limits their length and time."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from tuner.kernels.hosting.plain import Malformed

_LENGTHS: Final = struct.Struct("<QQ")
_PART: Final = 1 << 20
LONGEST_WAIT: Final = 3600.0


class Closed(Exception):
    """The other side has closed its end, or has died."""


class Link:
    """One end. A frame is a text and bytes.

    Args:
        end: The socket.
        other: A descriptor to watch while waiting, and the function to call when it can be read.
    """

    def __init__(self, end: socket.socket, other: tuple[int, Callable[[], object]] | None = None) -> None:
        self._socket, self._other = end, other

    def send(self, text: bytes, blobs: Sequence[bytes] = (), seconds: float | None = None) -> None:
        """Send a frame.

        Raises:
            Closed: The other side is gone.
            TimeoutError: The other side does not read.
        """
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(_LENGTHS.pack(len(text), sum(map(len, blobs))) + text)
            for blob in blobs:
                self._socket.sendall(blob)
        except TimeoutError:
            raise
        except OSError:
            raise Closed from None

    def receive(self, most: tuple[int, int], seconds: float | None = None) -> tuple[bytes, bytes]:
        """Return the next frame.

        Args:
            most: Longest text and most bytes that are accepted.

        Raises:
            Closed: There is none.
            Malformed: It is longer than that.
            TimeoutError: It was not complete within the seconds given.
        """
        end = time.monotonic() + (LONGEST_WAIT * 24 * 365 if seconds is None else seconds)
        lengths = _LENGTHS.unpack(self._exactly(_LENGTHS.size, end))
        for length, limit in zip(lengths, most, strict=True):
            if length > limit:
                raise Malformed(f"{length:,} bytes where up to {limit:,} are taken")
        return self._exactly(lengths[0], end), self._exactly(lengths[1], end)

    def _exactly(self, size: int, end: float) -> bytes:
        parts, missing = [], size
        while missing:
            self._wait(end)
            try:
                part = self._socket.recv(min(missing, _PART))
            except OSError:
                raise Closed from None
            if not part:
                raise Closed
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _wait(self, end: float) -> None:
        """Wait until something can be read."""
        if self._socket.fileno() < 0:
            raise Closed
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if self._other:
            poll.register(self._other[0], select.POLLIN)
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            ready = {descriptor for descriptor, _ in poll.poll(1000 * min(left, LONGEST_WAIT))}
            if self._other and self._other[0] in ready:
                self._other[1]()
            if self._socket.fileno() in ready:
                return
