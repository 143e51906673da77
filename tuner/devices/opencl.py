"""OpenCL devices through PyOpenCL; PoCL from PyPI is the default, so a CPU works without any system package."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tuner.devices import pocl
from tuner.devices.apart import apart, read_only
from tuner.devices.base import ALIGNMENT, Array, Buffer, Kernel, no_entry, other_arguments, wait_until
from tuner.devices.cpu import cpu_model, told_cache
from tuner.devices.diagnostics import readable
from tuner.devices.linker import REMEDY, bring_linker, found_linker
from tuner.errors import CompileError, Crashed, DeviceError, OutOfResources, UsageError
from tuner.kernels.launch import Launch
from tuner.kernels.limits import OPENCL, DeviceLimits
from tuner.kernels.render import short_header
from tuner.results import Environment, Resources, Telemetry

OPTIONS = ("-cl-std=CL1.2", "-cl-mad-enable")
SHORT_HEADER_FITS = (("Portable Computing Language", "3.0-rc2"),)  # where it gives the same machine code, by test

os.environ["PYOPENCL_NO_CACHE"] = "1"  # the compile cache is ours: content-addressed and shared
os.environ["POCL_WORK_GROUP_SPECIALIZATION"] = "0"  # otherwise PoCL compiles again at the first launch
os.environ.setdefault("POCL_KERNEL_CACHE", "0")  # PoCL's own grows without bound

import pyopencl as cl  # noqa: E402  (reads the environment when it loads)

warnings.filterwarnings("ignore", category=cl.CompilerWarning)
bring_linker()


def devices() -> list[cl.Device]:
    """Return every OpenCL device of every installed platform; an empty list without a working platform."""
    try:
        found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:
        return []
    for device in found:
        target(device)
    return found


def target(device: cl.Device) -> str:
    """Return the CPU that PoCL compiles for, set right where PoCL does not know this one; empty for others' devices."""
    cpu = device.type & cl.device_type.CPU and device.platform.name.strip() == pocl.POCL
    return pocl.settle(device.int_ptr) if cpu else ""


def describe(device: cl.Device) -> str:
    """Return the device's name, its driver and, on a CPU, what code for it may use."""
    said = f"{device.name.strip()}, {device.platform.name.strip()} {device.driver_version.strip()}"
    name = target(device)
    return f"{said}, code for {name}, vectors of {native_words(device)} words" if name else said


def native_words(device: cl.Device) -> int:
    """Return the FP32 words of the widest vectors that code for the device has registers for: 4, 8 or 16."""
    return max(4, min(16, pocl.vector_words(target(device), device.native_vector_width_float)))


def _toolkit(device: cl.Device) -> str:
    """Return what compiles: PoCL's version ends with the name that its LLVM has for the CPU."""
    said, name = device.version.strip(), target(device)
    if name and not said.endswith(f"-{name}"):
        said = f"{said} as {name}"
    return f"{said} {' '.join(OPTIONS)}"


def find(name: str) -> cl.Device:
    """Return the device called ``cpu`` (the first CPU), or ``opencl:N``.

    Raises:
        UsageError: There is no such device, or PoCL has no linker here and would end the process; the remedy.
    """
    found = devices()
    if name == "cpu":
        found = [device for device in found if device.type & cl.device_type.CPU]
        number = 0
    else:
        number = int(name.partition(":")[2] or 0)
    if not found:
        raise UsageError(f"device '{name}': OpenCL has none here; pip install pocl-binary-distribution brings a CPU's")
    if number >= len(found):
        last = f" to opencl:{len(found) - 1}" if len(found) > 1 else ""
        raise UsageError(f"device '{name}': OpenCL has {len(found)} here; take opencl:0{last}")
    if found[number].platform.name == pocl.POCL and not found_linker():
        raise UsageError(f"device '{name}': PoCL needs a linker for its kernels, and none is here; {REMEDY}")
    return found[number]


def compile_source(name: str, source: str, *, alone: bool = False) -> bytes:
    """Build ``source`` for the named device, down to machine code, and return the program's binary.

    Args:
        alone: Without our prelude, as a user of the text builds it.

    Raises:
        CompileError: With the build log.
    """
    device = find(name)
    try:
        program = (build_as if alone else build)(device, source, native_words(device))
    except cl.RuntimeError as error:
        log = str(error)
        raise CompileError(*(readable(log, source) or (_first_error(log), log))) from None
    return cast(bytes, program.get_info(cl.program_info.BINARIES)[0])


def build(device: cl.Device, source: str, words: int) -> cl.Program:
    """Build ``source`` with vectors of up to ``words`` FP32 words, by the short header where that is enough.

    Raises:
        cl.RuntimeError: With the build log.
    """
    if (device.platform.name, device.driver_version) in SHORT_HEADER_FITS:
        with suppress(cl.RuntimeError):  # a kernel that needs more is built again, for the log as well
            return build_as(device, f"{short_header()}\n{source}", words, ("-D_OPENCL_H_",))
    return build_as(device, source, words)


def build_as(device: cl.Device, source: str, words: int, more: tuple[str, ...] = ()) -> cl.Program:
    """Build as it stands. Warnings are off: PoCL would print how many, PyOpenCL make one of Python's of them."""
    options = [*OPTIONS, f"-DNATIVE_WORDS={words}", "-w", *more]
    return cl.Program(context(device), source).build(options, cache_dir=False)


@cache
def context(device: cl.Device) -> cl.Context:
    """Return a permanent context: without any, PoCL drops its library of built-ins, which takes 0.7 s to read again."""
    return cl.Context([device])


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "the compiler gave no message")


class OpenCLKernel:
    """A kernel of a loaded program; constant memory is a plain argument in OpenCL."""

    def __init__(self, kernel: cl.Kernel, device: cl.Device) -> None:
        self.kernel = kernel
        info = cl.kernel_work_group_info
        self.resources = Resources(
            shared_bytes=int(kernel.get_work_group_info(info.LOCAL_MEM_SIZE, device)),
            local_bytes=int(kernel.get_work_group_info(info.PRIVATE_MEM_SIZE, device)) or None,
        )

    def set_constant(self, name: str, values: Buffer, nbytes: int) -> None:
        return


class OpenCLDevice:
    """An OpenCL device with one profiling queue."""

    def __init__(self, name: str) -> None:
        self._device = device = find(name)
        self._context = context(device)
        self._queue = cl.CommandQueue(self._context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        cpu = bool(device.type & cl.device_type.CPU)
        cache_bytes = told_cache() if cpu else None
        model = cpu_model(cache_bytes) if cpu else device.name.strip()
        self.environment = Environment(
            device=name,
            kind="cpu" if cpu else "opencl",
            model=model,
            driver=f"{device.platform.name.strip()} {device.driver_version.strip()}",
            toolkit=_toolkit(device),
            arch=device.name.strip(),
            host=platform.node(),
        )
        sizes = tuple(device.max_work_item_sizes)
        self.limits = DeviceLimits(
            dialect=OPENCL,
            max_threads=device.max_work_group_size,
            max_block=(sizes[0], sizes[1], sizes[2]),
            shared_bytes=device.local_mem_size,
            constant_bytes=device.max_constant_buffer_size,
            registers=0,
            warp=1,
            vector_words=native_words(device),
        )
        self.cores = device.max_compute_units
        self.shares_host = cpu
        self.cache_bytes = device.global_mem_cache_size if cache_bytes is None else cache_bytes
        self.memory_bytes = device.global_mem_size
        self.alignment = max(ALIGNMENT, device.mem_base_addr_align // 8)
        self._apart: WeakValueDictionary[int, NDArray[np.uint8]] = WeakValueDictionary()
        self.timer_resolution = max(device.profiling_timer_resolution, 100) * 1e-9

    def allocate(self, nbytes: int) -> Buffer:
        try:
            return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(nbytes, 4))
        except cl.Error:  # out of memory, or above the device's largest buffer
            raise OutOfResources(f"device memory: {nbytes} bytes do not fit; lower --batch") from None

    def allocate_apart(self, nbytes: int) -> Buffer:
        pages = apart(nbytes) if self.shares_host else None
        if pages is None:
            return self.allocate(nbytes)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        buffer = cl.Buffer(self._context, flags, hostbuf=pages)
        self._apart[buffer.int_ptr] = pages
        return buffer

    @contextmanager
    def read_only(self, buffers: Sequence[Buffer]) -> Iterator[None]:
        self._queue.finish()
        with read_only(self._apart[buffer.int_ptr] for buffer in buffers if buffer.int_ptr in self._apart):
            yield
            self._queue.finish()

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        return buffer.get_sub_region(offset, max(nbytes, 4))

    def upload(self, buffer: Buffer, array: Array) -> None:
        cl.enqueue_copy(self._queue, buffer, np.ascontiguousarray(array), is_blocking=True)

    def download(self, buffer: Buffer, dtype: Any, count: int, offset: int = 0) -> Array:
        array = np.empty(count, dtype=dtype)
        cl.enqueue_copy(self._queue, array, buffer, src_offset=offset, is_blocking=True)
        return array

    def load(self, binary: bytes, entry: str, launch: Launch) -> OpenCLKernel:
        program = cl.Program(self._context, [self._device], [binary]).build()
        try:
            found = cl.Kernel(program, entry)
        except cl.LogicError:
            raise no_entry(entry, program.kernel_names.replace(";", ", ") if program.kernel_names else "") from None
        kernel = OpenCLKernel(found, self._device)
        need, limit = max(kernel.resources.shared_bytes or 0, launch.shared_bytes), self.limits.shared_bytes
        if need > limit:
            raise OutOfResources(f"shared memory: {need} bytes a block, the device has {limit}; stage less")
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        if threads > self.limits.max_threads:
            raise OutOfResources(f"threads: {threads} a block, the device allows {self.limits.max_threads}")
        return kernel

    def launch(self, kernel: Kernel, launch: Launch, arguments: tuple[Any, ...]) -> None:
        self._enqueue(cast(OpenCLKernel, kernel), launch, arguments)

    def _enqueue(self, kernel: OpenCLKernel, launch: Launch, arguments: tuple[Any, ...]) -> cl.Event:
        try:
            kernel.kernel.set_args(*arguments)
        except TypeError:
            why = f"it has {kernel.kernel.num_args} parameters"
            raise other_arguments(kernel.kernel.function_name, why) from None
        except cl.LogicError as error:
            raise other_arguments(kernel.kernel.function_name, str(error).splitlines()[0].rstrip(" :")) from None
        items = tuple(blocks * threads for blocks, threads in zip(launch.grid, launch.block, strict=True))
        try:
            return cl.enqueue_nd_range_kernel(self._queue, kernel.kernel, items, launch.block)
        except cl.Error as error:
            raise OutOfResources(f"launch refused: {error}", str(error)) from None

    def timed(self, kernel: Kernel, launch: Launch, arguments: tuple[Any, ...], *, limit: float, repeat: int) -> float:
        self._queue.finish()
        events = [self._enqueue(cast(OpenCLKernel, kernel), launch, arguments) for _ in range(repeat)]
        self._queue.flush()
        complete = cl.command_execution_status.COMPLETE
        wait_until(lambda: events[-1].command_execution_status <= complete, limit, spin=not self.shares_host)
        if events[-1].command_execution_status < complete:
            raise Crashed(f"launch failed with OpenCL status {events[-1].command_execution_status}")
        return float(events[-1].profile.end - events[0].profile.start) * 1e-9

    def synchronize(self) -> None:
        try:
            self._queue.finish()
        except cl.Error as error:
            raise DeviceError(f"device {self.environment.device}: {error}") from None

    def telemetry(self) -> Telemetry:
        return Telemetry()

    def close(self) -> None:
        self._queue.finish()
