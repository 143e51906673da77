"""Find out whether there is an NVIDIA GPU without PyCUDA, and what this machine lacks to build PyCUDA."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

CARDS = Path("/proc/driver/nvidia/gpus")  # the kernel driver's folder, with a subfolder for each card
COMPILERS = ("g++", "c++", "clang++")
LIBRARY = "libcuda.so.1"
HEADERS, LIBRARIES = ("cuda.h", "curand.h"), ("libcuda.so", "libcurand.so")


def gpu_present() -> bool:
    """Whether the NVIDIA driver shows a GPU, by /proc or NVML, without PyCUDA."""
    try:
        if any(CARDS.iterdir()):
            return True
    except OSError:
        pass
    try:
        import pynvml

        pynvml.nvmlInit()
        return bool(pynvml.nvmlDeviceGetCount())
    except Exception:  # no library, no driver, no permission
        return False


def driver_library_loads() -> bool:
    """Whether the driver's library, which PyCUDA calls, can be loaded."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def lacking() -> str:
    """Return what building PyCUDA needs and this machine lacks, each with its remedy; empty if nothing is missing."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
    headers = _beyond("CPATH", ("include",))
    libraries = _beyond(
        "LIBRARY_PATH", ("lib64", "lib64/stubs", "lib", "lib/stubs", f"lib/{os.uname().machine}-linux-gnu")
    )
    needs = {
        "a C++ compiler (apt-get install g++)": any(map(shutil.which, COMPILERS)),
        f"Python's headers (apt-get install {python})": _has(["Python.h"], [sysconfig.get_path("include")]),
        "the CUDA toolkit's nvcc (its bin folder on the PATH)": shutil.which("nvcc") is not None,
        f"the toolkit's {' and '.join(HEADERS)} (their folder on CPATH)": _has(HEADERS, headers),
        f"{' and '.join(LIBRARIES)} (their folders on LIBRARY_PATH)": _has(LIBRARIES, libraries),
    }
    return ", ".join(need for need, there in needs.items() if not there)


def _beyond(variable: str, folders: tuple[str, ...]) -> list[str]:
    """Return the folders of ``variable``, then those of the toolkit and the system."""
    nvcc = shutil.which("nvcc")
    roots = [os.environ.get("CUDA_ROOT", ""), *([] if nvcc is None else _parents(nvcc)), "/usr", "/usr/local"]
    own = os.environ.get(variable, "").split(os.pathsep)
    return [*filter(None, own), *(f"{root}/{folder}" for root in roots if root for folder in folders)]


def _parents(program: str) -> list[str]:
    return [str(Path(path).parents[1]) for path in (program, os.path.realpath(program))]


def _has(files: Sequence[str], folders: Sequence[str]) -> bool:
    return all(any(Path(folder, file).is_file() for folder in folders) for file in files)
