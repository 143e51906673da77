"""NVIDIA devices through PyCUDA: ``SourceModule``'s own compile step run ahead, modules loaded from the binary."""

from __future__ import annotations

import platform
import re
import subprocess
import warnings
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np

from tuner.devices.base import Array, Buffer, Kernel, wait_until
from tuner.devices.occupancy import Multiprocessor, occupancy
from tuner.errors import CompileError, Crashed, DeviceError, OutOfResources, UsageError
from tuner.results import Environment, Resources, Telemetry
from tuner.templates import CUDA, DeviceLimits, Launch

OPTIONS = ("-O3", "-std=c++17")
WARN_SPILLS = ("-Xptxas", "-warn-spills")  # changes no code, so no result's fingerprint either
STATIC_SHARED = 48 * 1024
FIRST_KNOWN = 80  # sm_80: from there on the occupancy rules are the same
ELSE = "or use --device cpu"


def _driver() -> Any:
    """Import PyCUDA's driver module and initialise it.

    Raises:
        UsageError: One line: PyCUDA is missing, its driver library is missing, or the driver refuses.
    """
    try:
        import pycuda.driver as cuda
    except ModuleNotFoundError:
        raise UsageError(f"device cuda: PyCUDA is not installed; pip install 'tuner[cuda]', {ELSE}") from None
    except ImportError as error:
        raise UsageError(f"device cuda: PyCUDA does not load ({error}); install the NVIDIA driver, {ELSE}") from None
    try:
        cuda.init()
    except cuda.Error as error:
        raise UsageError(f"device cuda: the NVIDIA driver refuses ({error}); run nvidia-smi, {ELSE}") from None
    return cuda


def require() -> int:
    """Return how many CUDA devices there are, at least one.

    Raises:
        UsageError: There is none, or what it needs is missing; one line that says what.
    """
    number = int(_driver().Device.count())
    if number == 0:
        raise UsageError(f"device cuda: the driver shows no GPU; check nvidia-smi, {ELSE}")
    return number


def count() -> int:
    """Return how many CUDA devices there are; 0 without PyCUDA or a driver."""
    try:
        return require()
    except UsageError:
        return 0


def describe(number: int) -> str:
    """Return a device's model, compute capability, memory and driver in one line, without opening it."""
    cuda = _driver()
    device = cuda.Device(number)
    major, minor = device.compute_capability()
    return f"{device.name()}, sm_{major}{minor}, {device.total_memory() >> 20:,} MiB, driver {_driver_version(cuda)}"


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
    from pycuda.compiler import compile as pycuda_compile
    from pycuda.driver import CompileError as NvccError

    options = [*OPTIONS, *WARN_SPILLS]
    try:
        with warnings.catch_warnings(record=True) as said:  # PyCUDA passes on as a warning what nvcc says
            warnings.simplefilter("always")
            binary = pycuda_compile(source, options=options, arch=arch, no_extern_c=False, cache_dir=False)
    except NvccError as error:
        log = "\n".join(str(part) for part in (error.stderr, error.stdout) if part) or str(error)
        raise CompileError(_first_error(log), log) from None
    return cast(bytes, binary), spilled_bytes("\n".join(str(each.message) for each in said))


def spilled_bytes(log: str) -> int:
    """Return the spill stores that ptxas warns of; it says nothing where nothing is spilled."""
    return sum(map(int, re.findall(r"(\d+) bytes spill stores", log)))


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "nvcc gave no message")


class CudaKernel:
    """A function of a loaded module, with what it uses."""

    def __init__(self, module: Any, entry: str, launch: Launch) -> None:
        self._module = module
        self.function = module.get_function(entry)
        self.resources = Resources(
            registers=self.function.num_regs,
            local_bytes=self.function.local_size_bytes,
            shared_bytes=self.function.shared_size_bytes + launch.shared_bytes,
        )

    def set_constant_weights(self, weights: Buffer, nbytes: int) -> None:
        import pycuda.driver as cuda

        try:
            address, size = self._module.get_global("w_constant")
        except cuda.LogicError:
            return  # this configuration keeps its weights elsewhere
        cuda.memcpy_dtod(address, weights, min(nbytes, size))


class CudaDevice:
    """One CUDA device with its own context, current until :meth:`close`."""

    shares_host = False

    def __init__(self, name: str) -> None:
        self._cuda = cuda = _driver()
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
            driver=_driver_version(cuda),
            toolkit=f"{toolkit()} {' '.join(OPTIONS)}",
            arch=f"sm_{major}{minor}",
            host=platform.node(),
        )
        self.limits = DeviceLimits(
            dialect=CUDA,
            max_threads=get(attribute.MAX_THREADS_PER_BLOCK),
            max_block=(get(attribute.MAX_BLOCK_DIM_X), get(attribute.MAX_BLOCK_DIM_Y), get(attribute.MAX_BLOCK_DIM_Z)),
            shared_bytes=_shared_optin(cuda, device),
            constant_bytes=get(attribute.TOTAL_CONSTANT_MEMORY),
            registers=get(attribute.MAX_REGISTERS_PER_BLOCK),
            warp=get(attribute.WARP_SIZE),
            capability=10 * major + minor,
        )
        self._multiprocessor = _multiprocessor(attribute, get, self.limits)
        self.cache_bytes = get(attribute.L2_CACHE_SIZE)
        self.memory_bytes = device.total_memory()
        self.timer_resolution = 1e-6
        self._events = cuda.Event(), cuda.Event()
        self._nvml = _nvml_handle(device)

    def allocate(self, nbytes: int) -> Buffer:
        try:
            return self._cuda.mem_alloc(max(nbytes, 4))
        except self._cuda.MemoryError:
            raise OutOfResources(f"device memory: {nbytes} bytes do not fit; lower --batch") from None

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
        kernel = CudaKernel(module, entry, launch)
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
        return _nvml_telemetry(self._nvml)

    def close(self) -> None:
        self._context.pop()
        self._context.detach()


def _driver_version(cuda: Any) -> str:
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:
        version = cuda.get_driver_version()
        return f"CUDA {version // 1000}.{version % 1000 // 10}"


def _multiprocessor(attribute: Any, get: Any, limits: DeviceLimits) -> Multiprocessor | None:
    """Return what a multiprocessor has, or None where this PyCUDA cannot ask for it."""
    if limits.capability < FIRST_KNOWN or not hasattr(attribute, "MAX_BLOCKS_PER_MULTIPROCESSOR"):
        return None  # older cards give shared memory out in other units
    return Multiprocessor(
        threads=get(attribute.MAX_THREADS_PER_MULTIPROCESSOR),
        blocks=get(attribute.MAX_BLOCKS_PER_MULTIPROCESSOR),
        registers=get(attribute.MAX_REGISTERS_PER_MULTIPROCESSOR),
        block_registers=limits.registers,
        shared_bytes=get(attribute.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    )


def _shared_optin(cuda: Any, device: Any) -> int:
    optin = getattr(cuda.device_attribute, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", None)
    if optin is not None:
        return int(device.get_attribute(optin))
    return int(device.get_attribute(cuda.device_attribute.MAX_SHARED_MEMORY_PER_BLOCK))


def _nvml_handle(device: Any) -> Any:
    """Return NVML's handle of the same physical card, or None where NVML does not answer."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id().encode())
    except Exception:
        return None


def _nvml_telemetry(handle: Any) -> Telemetry:
    if handle is None:
        return Telemetry()
    import pynvml

    def ask(question: Any, *arguments: Any) -> float | None:
        try:
            return float(question(handle, *arguments))
        except pynvml.NVMLError:
            return None

    power = ask(pynvml.nvmlDeviceGetPowerUsage)
    return Telemetry(
        clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        temperature_c=ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        power_w=None if power is None else power / 1000,
        throttle=_throttle_reasons(ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)),
    )


_REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}


def _throttle_reasons(mask: float | None) -> str:
    bits = int(mask or 0)
    return ", ".join(reason for bit, reason in _REASONS.items() if bits & bit)
