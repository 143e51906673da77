"""What this machine has, what it lacks, and the command that fixes it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tuner.devices.cache import CompileCache
from tuner.errors import TunerError

PACKAGES = ("numpy", "optuna", "optuna-dashboard", "sqlalchemy", "pyopencl", "pebble")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report; a remedy is given only where something is missing."""

    subject: str
    ok: bool
    found: str
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def examine() -> list[Finding]:
    """Look at Python, packages, OpenCL, CUDA, data and cache; nothing here raises."""
    return [
        _machine(),
        *(_package(name) for name in PACKAGES),
        *_opencl(),
        *_cuda(),
        _data(),
        _cache(),
    ]


def _machine() -> Finding:
    cores = len(os.sched_getaffinity(0))
    return Finding(
        subject="machine", ok=True, found=f"Python {platform.python_version()}, {cores} cores, {platform.platform()}"
    )


def _package(name: str) -> Finding:
    try:
        return Finding(subject=name, ok=True, found=version(name))
    except PackageNotFoundError:
        return Finding(subject=name, ok=False, found="not installed", remedy=f"pip install {name}")


def _opencl() -> list[Finding]:
    try:
        from tuner.devices import opencl

        found = opencl.devices()
    except ImportError as error:
        return [Finding(subject="OpenCL", ok=False, found=str(error), remedy="pip install pyopencl")]
    if not found:
        remedy = "pip install pocl-binary-distribution"
        return [Finding(subject="OpenCL", ok=False, found="no device", remedy=remedy)]
    return [
        *_linker(),
        *(
            Finding(subject=f"opencl:{number}", ok=True, found=opencl.describe(device))
            for number, device in enumerate(found)
        ),
    ]


def _linker() -> list[Finding]:
    from tuner.devices.linker import REMEDY, found_linker

    path = found_linker()
    if path:
        return [Finding(subject="linker", ok=True, found=path)]
    found = "none: PoCL needs one for each kernel on the CPU"
    return [Finding(subject="linker", ok=False, found=found, remedy=REMEDY)]


def _cuda() -> list[Finding]:
    findings = [_nvcc()]
    from tuner.devices import cuda_driver

    number = cuda_driver.count()
    if not number:
        why, remedy = cuda_driver.why_none(), "the CPU works without it"
        return [*findings, Finding(subject="cuda", ok=False, found=why, remedy=remedy)]
    return [*findings, *(Finding(subject=f"cuda:{i}", ok=True, found=cuda_driver.describe(i)) for i in range(number))]


def _nvcc() -> Finding:
    path = shutil.which("nvcc")
    if path is None:
        remedy = "install the CUDA toolkit and put its bin folder on the PATH (only for NVIDIA GPUs)"
        return Finding(subject="nvcc", ok=False, found="not on the PATH", remedy=remedy)
    from tuner.devices.nvcc import toolkit

    return _guarded("nvcc", lambda: f"{toolkit()} ({path})")


def _data() -> Finding:
    from tuner.problems.conv.dataset import load_test_split

    return _guarded("Fashion-MNIST", lambda: f"{len(load_test_split()):,} test images, SHA-256 as expected")


def _cache() -> Finding:
    folder = CompileCache.default().folder
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    writable = os.access(existing, os.W_OK)
    remedy = "" if writable else "set TUNER_CACHE_DIR to a folder you may write"
    return Finding(subject="compile cache", ok=writable, found=str(folder), remedy=remedy)


def _guarded(subject: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(subject=subject, ok=True, found=look())
    except TunerError as error:
        return Finding(subject=subject, ok=False, found=str(error))
