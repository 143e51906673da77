"""Whether an NVIDIA GPU is there although PyCUDA is not, and what building PyCUDA still lacks on this machine."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import sysconfig
from pathlib import Path

CARDS = Path("/proc/driver/nvidia/gpus")  # a folder a card, by the kernel's driver
COMPILERS = ("g++", "c++", "clang++")
LIBRARY = "libcuda.so.1"


def gpu_present() -> bool:
    """Whether the NVIDIA driver shows a GPU, by the kernel's word or NVML's; no PyCUDA is needed."""
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
    """Whether the driver's own library, which PyCUDA calls, is there."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def lacking() -> str:
    """Return what building PyCUDA needs and this machine lacks, each with its remedy; empty where all is there."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
    nvcc = shutil.which("nvcc")
    needs = {
        "a C++ compiler (apt-get install g++)": any(map(shutil.which, COMPILERS)),
        f"Python's headers (apt-get install {python})": _has("Python.h", [sysconfig.get_path("include")]),
        "the CUDA toolkit's nvcc (its bin folder on the PATH)": nvcc is not None,
        "the toolkit's headers (its include folder on CPATH)": _has("cuda.h", _include_folders(nvcc)),
    }
    return ", ".join(need for need, there in needs.items() if not there)


def _include_folders(nvcc: str | None) -> list[str]:
    roots = [os.environ.get("CUDA_ROOT", ""), "/usr", "/usr/local"]
    if nvcc is not None:
        roots += [str(Path(path).parents[1]) for path in (nvcc, os.path.realpath(nvcc))]
    return [*os.environ.get("CPATH", "").split(os.pathsep), *(f"{root}/include" for root in roots if root)]


def _has(header: str, folders: list[str]) -> bool:
    return any(Path(folder, header).is_file() for folder in folders if folder)
