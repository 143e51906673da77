"""nvcc through PyCUDA: ``SourceModule``'s own compile step, which needs no device."""

from __future__ import annotations

import re
import subprocess
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import cast

from tuner.devices.diagnostics import readable
from tuner.errors import CompileError, Killed, UsageError

OPTIONS = ("-O3", "-std=c++17")
WARN_SPILLS = ("-Xptxas", "-warn-spills")  # does not change the code, so it is not part of the fingerprint
C_LINKAGE = re.compile(r'^extern\s+"C"\s+__global__', re.MULTILINE)  # a C++ kernel declares this itself
KILLED = re.compile(r"died due to signal (?:1|2|9|15)\b")  # nvcc's message about one of its programs
SHORT_HEADER_FITS = (
    "cuda_13.0",
    "cuda_13.1",
    "cuda_13.2",
    "cuda_13.3",
)  # releases for which a test shows the same machine code


@cache
def toolkit() -> str:
    """Return nvcc's release line.

    Raises:
        UsageError: nvcc is not on the PATH.
    """
    try:
        done = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        raise UsageError("device cuda: nvcc does not run; put the CUDA toolkit's bin folder on the PATH") from None
    return done.stdout.strip().splitlines()[-1]


def compile_source(arch: str, source: str) -> bytes:
    """Compile ``source`` for ``arch`` (``sm_90``) with PyCUDA's compile step, as ``SourceModule`` does.

    Raises:
        CompileError: With nvcc's output.
    """
    return compile_with_spills(arch, source)[0]


def compile_with_spills(arch: str, source: str) -> tuple[bytes, int]:
    """Compile, and return the binary with the bytes of registers that a thread spills, as ptxas counts its stores.

    Raises:
        CompileError: With nvcc's output.
    """
    from pycuda.driver import CompileError as NvccError

    if any(release in toolkit() for release in SHORT_HEADER_FITS):
        with suppress(NvccError):  # a kernel that needs more is recompiled, also for its log
            return _run(arch, source, short_header())
    try:
        return _run(arch, source)
    except NvccError as error:
        log = "\n".join(str(part) for part in (error.stderr, error.stdout) if part) or str(error)
        if KILLED.search(log):
            raise Killed("a part of nvcc was killed from outside (as when memory runs out)", log) from None
        raise CompileError(*(readable(log, source) or (_first_error(log), log))) from None


def compile_text(arch: str, text: str) -> bytes:
    """Compile a self-contained text with nvcc's own headers, as C++ unless it says otherwise.

    Raises:
        CompileError: With nvcc's output.
    """
    from pycuda.compiler import compile as pycuda_compile
    from pycuda.driver import CompileError as NvccError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cast(bytes, pycuda_compile(text, options=[*OPTIONS], arch=arch, no_extern_c=True, cache_dir=False))
    except NvccError as error:
        log = "\n".join(str(part) for part in (error.stderr, error.stdout) if part) or str(error)
        raise CompileError(_first_error(log), log) from None


def short_header() -> list[str]:
    """Return the options that replace nvcc's own header by our few declarations."""
    return ["-D__CUDA_RUNTIME_H__", "-include", str(Path(__file__).parents[1] / "kernels" / "preludes" / "nvcc.h")]


def _run(arch: str, source: str, more: Sequence[str] = ()) -> tuple[bytes, int]:
    from pycuda.compiler import compile as pycuda_compile

    options = [*OPTIONS, *WARN_SPILLS, *more]
    with warnings.catch_warnings(record=True) as said:  # PyCUDA passes on as a warning what nvcc says
        warnings.simplefilter("always")
        plain = C_LINKAGE.search(source) is not None  # otherwise PyCUDA wraps the whole source in extern "C" { }
        binary = pycuda_compile(source, options=options, arch=arch, no_extern_c=plain, cache_dir=False)
    return cast(bytes, binary), spilled_bytes("\n".join(str(each.message) for each in said))


def spilled_bytes(log: str) -> int:
    """Return the spill stores that ptxas warns of; 0 if it does not warn."""
    return sum(map(int, re.findall(r"(\d+) bytes spill stores", log)))


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "nvcc gave no message")
