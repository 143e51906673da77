"""What PoCL's own LLVM does not know of this machine's CPU: its name, without which it compiles nothing."""

from __future__ import annotations

import ctypes
import mmap
import platform
from functools import cache
from pathlib import Path
from typing import Any

UNKNOWN = b"generic"  # what LLVM calls a CPU newer than itself, and what clang then refuses
KNOWN = (
    ("icelake-server", "avx512f avx512bw avx512cd avx512dq avx512vl avx512vbmi avx512_vbmi2 avx512_vnni vaes sha_ni"),
    ("skylake-avx512", "avx512f avx512bw avx512cd avx512dq avx512vl adx clwb pku"),
    ("haswell", "avx2 bmi1 bmi2 f16c fma abm movbe rdrand fsgsbase invpcid"),
    ("x86-64-v3", "avx2 bmi1 bmi2 f16c fma abm movbe"),
    ("x86-64-v2", "cx16 popcnt sse4_1 sse4_2 ssse3"),
)
LAST = "x86-64"
PROTECTIONS = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC


def name_unknown_cpu(folder: Path) -> str:
    """Let the PoCL in ``folder`` take a CPU that its LLVM has no name for to be one with the same instructions.

    PoCL 3.0 hands LLVM's "generic" on to clang, which ends every build with "unknown target CPU". Its function that
    asks for the name is made to return another one; where LLVM knows the CPU nothing is touched.

    Returns:
        The name given; empty where none was needed, or where the system forbids it.
    """
    found = next(iter(sorted(folder.glob("libpocl*.so*"))), None)
    if found is None or platform.machine() != "x86_64":
        return ""
    try:
        ask = ctypes.CDLL(str(found)).pocl_get_llvm_cpu_name
    except (OSError, AttributeError):
        return ""
    ask.restype = ctypes.c_char_p
    name = nearest_known(_flags())
    return name if ask() == UNKNOWN and returns_instead(ask, name.encode()) else ""


def nearest_known(flags: frozenset[str]) -> str:
    """Return the CPU, of those LLVM knows, with the most of the instructions that ``flags`` name."""
    return next((name for name, needed in KNOWN if flags.issuperset(needed.split())), LAST)


def _flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), []))


def returns_instead(function: Any, name: bytes) -> bool:
    """Overwrite ``function`` with ``return strdup(name)``, as its callers free it; False where that is forbidden."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    code = b"\x48\xbf%b\x48\xb8%b\xff\xe0" % (_word(_lasting(name)), _word(libc.strdup))  # movabs, movabs, jmp *%rax
    at = ctypes.cast(function, ctypes.c_void_p).value or 0
    page = at & -mmap.PAGESIZE
    length = at + len(code) - page
    if libc.mprotect(page, length, PROTECTIONS):
        return False
    ctypes.memmove(at, code, len(code))
    libc.mprotect(page, length, mmap.PROT_READ | mmap.PROT_EXEC)
    return True


def _word(pointer: Any) -> bytes:
    return (ctypes.cast(pointer, ctypes.c_void_p).value or 0).to_bytes(8, "little")


@cache
def _lasting(text: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(text)
