"""Devices by name; CUDA and OpenCL are imported only when one is opened."""

from __future__ import annotations

import re

from tuner.devices.base import Array, Buffer, Device, Kernel, scalar
from tuner.errors import UsageError
from tuner.results import Environment

__all__ = [
    "Array",
    "Buffer",
    "Device",
    "Kernel",
    "check_name",
    "compile_source",
    "compile_with_spills",
    "open_device",
    "resolve",
    "scalar",
]

NAMES = "auto, cpu, cuda, cuda:N, opencl:N"


def check_name(name: str) -> str:
    """Return the device's full name (``cuda`` means ``cuda:0``).

    Raises:
        UsageError: It is none of the names there are.
    """
    if name == "cuda":
        return "cuda:0"
    if re.fullmatch(r"auto|cpu|(cuda|opencl):\d+", name):
        return name
    raise UsageError(f"device '{name}' is unknown; there are: {NAMES}")


def resolve(name: str) -> str:
    """Return what ``auto`` means here: the first NVIDIA GPU, else the CPU. Other names come back as they are."""
    if name != "auto":
        return name
    from tuner.devices import cuda_driver

    return "cuda:0" if cuda_driver.count() else "cpu"


def open_device(name: str) -> Device:
    """Open a device in this process.

    Raises:
        UsageError: There is no such device here, or what it needs is not installed.
    """
    name = resolve(check_name(name))
    if name.startswith("cuda"):
        from tuner.devices.cuda import CudaDevice

        return CudaDevice(name)
    from tuner.devices.opencl import OpenCLDevice

    return OpenCLDevice(name)


def compile_source(environment: Environment, source: str) -> bytes:
    """Compile for the device of ``environment``, without opening it on CUDA.

    Raises:
        CompileError: With the compiler's log.
    """
    return compile_with_spills(environment, source)[0]


def compile_text(environment: Environment, text: str) -> bytes:
    """Compile a text that has everything it needs, such as an exported header, as a user's compiler does.

    Raises:
        CompileError: With the compiler's log.
    """
    if environment.kind == "cuda":
        from tuner.devices import nvcc

        return nvcc.compile_text(environment.arch, text)
    from tuner.devices import opencl

    return opencl.compile_source(environment.device, text, alone=True)


def compile_with_spills(environment: Environment, source: str) -> tuple[bytes, int | None]:
    """Compile, and return the binary with the bytes of registers a thread spills; None where nobody counts them.

    Raises:
        CompileError: With the compiler's log.
    """
    if environment.kind == "cuda":
        from tuner.devices import nvcc

        return nvcc.compile_with_spills(environment.arch, source)
    from tuner.devices import opencl

    return opencl.compile_source(environment.device, source), None
