"""What the bench needs of a device. Two implementations: CUDA through PyCUDA, OpenCL through PyOpenCL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tuner.errors import CompileError, TimedOut
from tuner.kernels.launch import Launch
from tuner.kernels.limits import DeviceLimits
from tuner.problems.registry import arguments_of
from tuner.results import Environment, Resources, Telemetry

SPIN_SECONDS, LEAST_SLEEP = 0.002, 0.0001
ALIGNMENT = 256  # bytes, of what cudaMalloc returns, and no more
Buffer = Any
Array = npt.NDArray[Any]


class Kernel(Protocol):
    """A loaded entry point."""

    resources: Resources

    def set_constant(self, name: str, values: Buffer, nbytes: int) -> None:
        """Fill the module's array ``NAME_constant`` from a device buffer; nothing where there is none."""


class Device(Protocol):
    """One opened device; owned by a single process.

    Every method may raise ``DeviceError`` when the device itself fails; after a kernel's fault the whole process must
    be replaced.
    """

    environment: Environment
    limits: DeviceLimits
    cores: int  # multiprocessors, or the equivalent of this kind of device
    shares_host: bool  # kernels run on the cores that compile: compiling and timing must not overlap
    cache_bytes: int  # last-level cache, to be flushed between launches
    memory_bytes: int
    timer_resolution: float  # seconds
    alignment: int  # bytes, of what may be a view's offset; a page is a multiple of it

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate device memory; ``OutOfResources`` when there is not enough."""

    def allocate_apart(self, nbytes: int) -> Buffer:
        """Allocate whole pages for a kernel to use, with nothing within reach of an ``int`` beside them if possible."""

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """Return a part of a buffer; the offset is a multiple of ``alignment``."""

    @contextmanager
    def read_only(self, buffers: Sequence[Buffer]) -> Iterator[None]:
        """Let a write to these, which lie apart, fault meanwhile; does nothing where a device cannot tell."""

    def upload(self, buffer: Buffer, array: Array) -> None: ...

    def download(self, buffer: Buffer, dtype: Any, count: int, offset: int = 0) -> Array:
        """Copy ``count`` items back, starting at ``offset`` bytes."""

    def load(self, binary: bytes, entry: str, launch: Launch) -> Kernel:
        """Load a compiled binary; ``OutOfResources`` when the launch cannot fit the device."""

    def launch(self, kernel: Kernel, launch: Launch, arguments: tuple[Any, ...]) -> None:
        """Start a kernel without waiting. NumPy scalars and buffers are arguments."""

    def timed(self, kernel: Kernel, launch: Launch, arguments: tuple[Any, ...], *, limit: float, repeat: int) -> float:
        """Run ``repeat`` launches back to back and return their seconds by the device's clock.

        Raises:
            TimedOut: They did not finish within ``limit`` seconds; the device is left busy.
            Crashed: The device reports a fault; nothing more can be run in this process.
        """

    def synchronize(self) -> None: ...

    def telemetry(self) -> Telemetry: ...

    def close(self) -> None: ...


def no_entry(entry: str, there: str = "") -> CompileError:
    """Return the error for a source without the kernel to launch."""
    has = f"the source has {there}" if there else "the source has none of that name"
    return CompileError(f"there is no kernel '{entry}': {has}; declare __global__ void {entry}({arguments_of(entry)})")


def other_arguments(entry: str, why: str) -> CompileError:
    """Return the error of a kernel that cannot be given what every kernel here is given."""
    return CompileError(f"kernel '{entry}' does not take ({arguments_of(entry)}): {why}")


def wait_until(done: Callable[[], bool], limit: float, spin: bool = True) -> None:
    """Poll ``done`` until it is true; short waits spin, long ones sleep.

    Args:
        spin: Whether this process may keep a core busy meanwhile; not if the kernel runs on the same cores.

    Raises:
        TimedOut: ``limit`` seconds passed.
    """
    start = time.monotonic()
    while not done():
        passed = time.monotonic() - start
        if passed > limit:
            raise TimedOut(f"launch took longer than its limit of {limit:.1f} s; raise it with --trial-timeout")
        if passed > SPIN_SECONDS or not spin:
            time.sleep(min(0.02, max(LEAST_SLEEP, passed / 20)))


def scalar(value: int | float) -> np.generic:
    """Return a kernel argument: ``int`` or ``float`` of C."""
    return np.float32(value) if isinstance(value, float) else np.int32(value)
