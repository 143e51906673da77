"""Memory of this process with nothing beside it: a kernel on the CPU that strays beyond its guard zones faults."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

REACH = 1 << 34  # bytes on either side: an int counts words of four bytes, so further than any index can lead
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
NOBODY, READ, WRITE = 0, 1, 2


def apart(nbytes: int) -> NDArray[np.uint8] | None:
    """Return pages of zeros between ``REACH`` bytes that nobody may touch; None where a process may not have them.

    Args:
        nbytes: A multiple of a page.
    """
    whole = nbytes + 2 * REACH
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    begin = _libc().mmap(None, whole, NOBODY, flags, -1, 0)
    if begin in (None, ctypes.c_void_p(-1).value):
        return None
    if not _protect(begin + REACH, nbytes, READ | WRITE):
        _libc().munmap(begin, whole)
        return None
    memory = memoryview((ctypes.c_ubyte * nbytes).from_address(begin + REACH))
    pages: NDArray[np.uint8] = np.frombuffer(memory, dtype=np.uint8)
    weakref.finalize(pages, _libc().munmap, begin, whole)
    return pages


@contextmanager
def read_only(every: Iterable[NDArray[np.uint8]]) -> Iterator[None]:
    """Let a write to pages from :func:`apart` end the process with SIGSEGV meanwhile."""
    kept = [(pages.ctypes.data, pages.nbytes) for pages in every]
    for begin, nbytes in kept:
        _protect(begin, nbytes, READ)
    try:
        yield
    finally:
        for begin, nbytes in kept:
            _protect(begin, nbytes, READ | WRITE)


def _protect(begin: int, nbytes: int, how: int) -> bool:
    return int(_libc().mprotect(begin, nbytes, how)) == 0


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
