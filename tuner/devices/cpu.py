"""The CPU as studies know it: its name, and how large its last-level cache is taken to be."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tuner.errors import UsageError

CACHE = "TUNER_CPU_CACHE"  # environment variable for another size of a CPU's last-level cache, in bytes


def told_cache() -> int | None:
    """Return the bytes of the last-level cache that the environment gives the CPU, None where it says nothing.

    Raises:
        UsageError: It is not a number of bytes.
    """
    text = os.environ.get(CACHE)
    if text and not (text.isascii() and text.isdigit()):
        raise UsageError(f"{CACHE}={text!r} is not a number of bytes; write {CACHE}=8388608")
    return int(text) if text else None


def cpu_model(cache_bytes: int | None) -> str:
    """Return the CPU's name and its cores; told of another cache it is another machine, with its own studies."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    told = "" if cache_bytes is None else f", as with {cache_bytes} bytes of cache"
    return f"{next(named, platform.processor() or platform.machine())} x{os.cpu_count()}{told}"
