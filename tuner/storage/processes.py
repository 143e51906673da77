"""Identify processes, so that a dead one is distinguished from a living one and from a later one with the same id."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

UNREACHABLE_SECONDS = 3600.0  # age at which a claim of another host or container counts as dead
TICKS = os.sysconf("SC_CLK_TCK")  # clock ticks per second
CLOCK_SLACK = TICKS  # tolerance: the boot time is in whole seconds, and shifts when the clock is corrected


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The identity of a process, different from that of a later one with the same id.

    Attributes:
        boot: The kernel's boot id and the process-id namespace, which differs between containers.
        started: Start time in clock ticks since boot; 0 where the system does not report it.
    """

    host: str
    boot: str
    pid: int
    started: int


def this_process() -> Process:
    """Return the identity of the calling process (never cached across a fork)."""
    pid = os.getpid()
    return Process(host=socket.gethostname(), boot=_boot(), pid=pid, started=start_ticks(pid) or 0)


@cache
def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """Return when ``pid`` started, or None if there is no such process, or its start is unknown."""
    import psutil

    with suppress(psutil.Error, OSError):
        boot, process = psutil.boot_time(), psutil.Process(pid)
        if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):  # these have ended
            seconds: float = process.create_time() - boot
            return round(seconds * TICKS)
    return None


def may_live(process: Process, claimed: float) -> bool:
    """Whether a process may still be alive: exact on this host, by age for processes that cannot be checked."""
    here = this_process()
    boot, _, namespace = process.boot.partition(" ")
    our_boot, _, our_namespace = here.boot.partition(" ")
    if process.host == here.host and boot != our_boot:
        return False  # this host has been rebooted since
    if process.host != here.host or namespace != our_namespace or not process.started:
        return time.time() - claimed < UNREACHABLE_SECONDS
    started = start_ticks(process.pid)
    return started is not None and abs(started - process.started) <= CLOCK_SLACK
