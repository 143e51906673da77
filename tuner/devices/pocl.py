"""The CPU that PoCL compiles for: as its LLVM names it, or the most capable one whose flags this CPU also has.

PoCL asks its LLVM for the name of the CPU. An LLVM of 2022 calls every later CPU "generic", a name that its own
compiler then refuses ("unknown target CPU 'generic'"), and a Zen 4 is a Zen 3, without the AVX-512 that PoCL has found.
No setting of PoCL changes the name, so another one is put into the device's description, where it follows the triplet.
The names are those that PoCL's own built-in words were compiled for: for any other they are calls, not inlined.

Source:
    PoCL's issues 512 and 1049; System V ABI for AMD64, "micro-architecture levels", for the flags.
"""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from pathlib import Path

POCL = "Portable Computing Language"
TARGET = "TUNER_CPU_TARGET"  # environment variable for another name
DESCRIPTION_BYTES = 2048  # bytes of a device's description that are searched
LONGEST_NAME = 64
CPUS = (  # name, FP32 words of a register, flags beyond those of the CPUs below
    ("skylake-avx512", 16, "avx512f avx512bw avx512cd avx512dq avx512vl"),
    ("haswell", 8, "avx avx2 bmi1 bmi2 f16c fma abm movbe"),
    ("penryn", 4, "cx16 lahf_lm pni sse4_1 ssse3"),
    ("x86-64", 4, ""),
)
UNKNOWN, TAKEN_FOR_ZEN_3 = "generic", "znver3"


def nearest(flags: frozenset[str]) -> str:
    """Return the most capable CPU whose flags (as in /proc/cpuinfo), and those of the CPUs below, are present."""
    best = CPUS[-1][0]
    for name, _, needed in reversed(CPUS):
        if not flags.issuperset(needed.split()):
            break
        best = name
    return best


def better_name(name: str, flags: frozenset[str]) -> str:
    """Return the CPU to compile for if LLVM calls a CPU with these flags ``name``."""
    mistaken = name == UNKNOWN or (name == TAKEN_FOR_ZEN_3 and nearest(flags) == CPUS[0][0])
    return nearest(flags) if mistaken and flags else name


def vector_words(name: str, stated: int) -> int:
    """Return the FP32 words in a register of the CPU ``name``: as many as the device states, if code may use them."""
    widths = {each: words for each, words, _ in CPUS} | {UNKNOWN: 4, TAKEN_FOR_ZEN_3: 8}
    return min(stated, widths.get(name, stated))


def settle(pointer: int) -> str:
    """Make PoCL compile for the right CPU from now on, and return its name; empty if PoCL keeps it elsewhere.

    Args:
        pointer: The device's handle, as OpenCL's functions take it.
    """
    place = _place(pointer)
    if place is None:
        return ""
    name = _text(_word(place) or 0)
    wanted = os.environ.get(TARGET) or better_name(name, cpu_flags())
    if wanted != name:
        rename(place, wanted)
    return wanted


def rename(place: int, name: str) -> None:
    """Store the address of a permanent copy of ``name`` at ``place``."""
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p
    ctypes.c_void_p.from_address(place).value = libc.strdup(name.encode())


@cache
def cpu_flags() -> frozenset[str]:
    """Return this CPU's flags as the kernel reports them; empty if it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def _place(pointer: int) -> int | None:
    """Return where the device's description holds the address of its CPU's name: after the triplet's."""
    for place in range(pointer, pointer + DESCRIPTION_BYTES, 8):
        if _text(_word(place) or 0).startswith("x86_64-") and _text(_word(place + 8) or 0):
            return place + 8
    return None


def _word(address: int) -> int | None:
    found = _read(address, 8)
    return struct.unpack("<Q", found)[0] if len(found) == 8 else None


def _text(address: int) -> str:
    found, end, _ = _read(address, LONGEST_NAME).partition(b"\0")
    return found.decode() if end and found.isascii() and found.decode().isprintable() else ""


def _read(address: int, count: int) -> bytes:
    """Read this process's memory; empty if the address is not mapped."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(count) or b""
    except (OSError, ValueError, OverflowError):
        return b""
