"""NVIDIA devices through PyCUDA: modules loaded from nvcc's binary, launched and timed."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tuner.devices.base import ALIGNMENT, Array, Buffer, Kernel, no_entry, wait_until
from tuner.devices.cuda_driver import arch_of, driver, driver_version, multiprocessor, shared_optin
from tuner.devices.nvcc import OPTIONS, toolkit
from tuner.devices.nvml import nvml_handle, nvml_telemetry
from tuner.devices.occupancy import occupancy
from tuner.errors import Crashed, DeviceError, OutOfResources, UsageError
from tuner.kernels.launch import Launch
from tuner.kernels.limits import CUDA, DeviceLimits
from tuner.results import Environment, Resources, Telemetry

STATIC_SHARED = 48 * 1024


class CudaKernel:
    """A function of a loaded module, with what it uses."""

    def __init__(self, module: Any, entry: str, launch: Launch) -> None:
        self._module, self._entry = module, entry
        self.function = module.get_function(entry)
        self.resources = Resources(
            registers=self.function.num_regs,
            local_bytes=self.function.local_size_bytes,
            shared_bytes=self.function.shared_size_bytes + launch.shared_bytes,
        )

    def set_constant(self, name: str, values: Buffer, nbytes: int) -> None:
        import pycuda.driver as cuda

        for symbol in self._symbols(f"{name}_constant"):
            try:
                address, size = self._module.get_global(symbol)
            except cuda.LogicError:
                continue  # this configuration keeps it elsewhere
            cuda.memcpy_dtod(address, int(values), min(nbytes, size))

    def _symbols(self, name: str) -> tuple[str, str]:
        """Return the symbols that a variable may have: an exported header has it in a namespace of its own."""
        space = self._entry.removesuffix("_forward")
        return name, f"_ZN{len(space)}{space}{len(name)}{name}E"


class CudaDevice:
    """One CUDA device with its own context, current until :meth:`close`."""

    shares_host = False
    alignment = ALIGNMENT

    def __init__(self, name: str) -> None:
        self._cuda = cuda = driver()
        number = int(name.partition(":")[2] or 0)
        if number >= cuda.Device.count():
            raise UsageError(f"device '{name}': this machine has {cuda.Device.count()} CUDA device(s); see tune doctor")
        device = cuda.Device(number)
        self._number = number
        self._context = device.make_context()
        attribute = cuda.device_attribute
        get = device.get_attribute
        major, minor = device.compute_capability()
        self.environment = Environment(
            device=f"cuda:{number}",
            kind="cuda",
            model=device.name(),
            driver=driver_version(cuda),
            toolkit=f"{toolkit()} {' '.join(OPTIONS)}",
            arch=arch_of(major, minor),
            host=platform.node(),
        )
        self.limits = DeviceLimits(
            dialect=CUDA,
            max_threads=get(attribute.MAX_THREADS_PER_BLOCK),
            max_block=(get(attribute.MAX_BLOCK_DIM_X), get(attribute.MAX_BLOCK_DIM_Y), get(attribute.MAX_BLOCK_DIM_Z)),
            shared_bytes=shared_optin(cuda, device),
            constant_bytes=get(attribute.TOTAL_CONSTANT_MEMORY),
            registers=get(attribute.MAX_REGISTERS_PER_BLOCK),
            warp=get(attribute.WARP_SIZE),
            capability=10 * major + minor,
        )
        self._multiprocessor = multiprocessor(attribute, get, self.limits)
        self.cores = get(attribute.MULTIPROCESSOR_COUNT)
        self.cache_bytes = get(attribute.L2_CACHE_SIZE)
        self.memory_bytes = device.total_memory()
        self.timer_resolution = 1e-6
        self._events = cuda.Event(), cuda.Event()
        self._nvml = nvml_handle(device)

    def allocate(self, nbytes: int) -> Buffer:
        try:
            return self._cuda.mem_alloc(max(nbytes, 4))
        except self._cuda.MemoryError:
            raise OutOfResources(f"device memory: {nbytes} bytes do not fit; lower --batch") from None

    def allocate_apart(self, nbytes: int) -> Buffer:
        return self.allocate(nbytes)

    @contextmanager
    def read_only(self, buffers: Sequence[Buffer]) -> Iterator[None]:
        yield

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        return np.uint64(int(buffer) + offset)

    def upload(self, buffer: Buffer, array: Array) -> None:
        self._cuda.memcpy_htod(buffer, np.ascontiguousarray(array))

    def download(self, buffer: Buffer, dtype: Any, count: int, offset: int = 0) -> Array:
        array = np.empty(count, dtype=dtype)
        self._cuda.memcpy_dtoh(array, int(buffer) + offset)
        return array

    def load(self, binary: bytes, entry: str, launch: Launch) -> CudaKernel:
        try:
            module = self._cuda.module_from_buffer(binary)
        except self._cuda.Error as error:
            raise OutOfResources(f"module does not load: {error}", str(error)) from None
        try:
            kernel = CudaKernel(module, entry, launch)
        except self._cuda.LogicError:  # named symbol not found
            raise no_entry(entry) from None
        self._fit(kernel, launch)
        kernel.resources = replace(kernel.resources, occupancy=self._occupancy(kernel.resources, launch))
        return kernel

    def _occupancy(self, used: Resources, launch: Launch) -> float | None:
        if self._multiprocessor is None or used.registers is None or used.shared_bytes is None:
            return None
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        return occupancy(self._multiprocessor, threads, used.registers, used.shared_bytes)

    def _fit(self, kernel: CudaKernel, launch: Launch) -> None:
        attribute = self._cuda.function_attribute
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        most = kernel.function.get_attribute(attribute.MAX_THREADS_PER_BLOCK)
        if threads > most:
            raise OutOfResources(
                f"threads: {threads} a block at {kernel.resources.registers} registers, the device allows {most}"
            )
        shared, limit = kernel.resources.shared_bytes or 0, self.limits.shared_bytes
        if shared > limit:
            raise OutOfResources(f"shared memory: {shared} bytes a block, the device has {limit}; stage less")
        if launch.shared_bytes > 0 and shared > STATIC_SHARED:
            kernel.function.set_attribute(attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes)

    def launch(self, kernel: Kernel, launch: Launch, arguments: tuple[Any, ...]) -> None:
        function = cast(CudaKernel, kernel).function
        try:
            function(*arguments, block=launch.block, grid=launch.grid, shared=launch.shared_bytes)
        except self._cuda.Error as error:
            raise Crashed(f"launch failed: {error}", str(error)) from None

    def timed(self, kernel: Kernel, launch: Launch, arguments: tuple[Any, ...], *, limit: float, repeat: int) -> float:
        start, end = self._events
        try:
            start.record()
            for _ in range(repeat):
                self.launch(kernel, launch, arguments)
            end.record()
            wait_until(end.query, limit)
            return float(start.time_till(end)) * 1e-3
        except self._cuda.Error as error:
            raise Crashed(f"kernel failed: {error}", str(error)) from None

    def synchronize(self) -> None:
        try:
            self._context.synchronize()
        except self._cuda.Error as error:
            raise DeviceError(f"device {self.environment.device}: {error}") from None

    def telemetry(self) -> Telemetry:
        return nvml_telemetry(self._nvml)

    def close(self) -> None:
        self._context.pop()
        self._context.detach()
