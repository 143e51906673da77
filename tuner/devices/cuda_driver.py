"""Enumerate and describe CUDA devices through PyCUDA's driver module, without opening one."""

from __future__ import annotations

from typing import Any

from tuner.devices import cuda_needs
from tuner.devices.occupancy import Multiprocessor
from tuner.errors import UsageError
from tuner.kernels.capabilities import WARPGROUPS
from tuner.kernels.limits import DeviceLimits

FIRST_KNOWN = 80  # sm_80: first capability to which the occupancy rules apply
NO_GPU = "no NVIDIA GPU found"
INSTALL, REBUILD = "pip install '.[cuda]'", "pip install --force-reinstall --no-cache-dir pycuda"
ELSE = "or use --device cpu"


def arch_of(major: int, minor: int) -> str:
    """Return the architecture that nvcc targets for this device: sm_90a for sm_90, to have its specific features."""
    return f"sm_{major}{minor}" + ("a" if 10 * major + minor == WARPGROUPS else "")


class NoCuda(UsageError):
    """CUDA cannot be used: the cause and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"device cuda: {what}; {remedy}, {ELSE}")
        self.what, self.remedy = what, remedy

    def __reduce__(self) -> tuple[type[NoCuda], tuple[str, str]]:
        return type(self), (self.what, self.remedy)


def driver() -> Any:
    """Import PyCUDA's driver module and initialise it.

    Raises:
        NoCuda: One line: PyCUDA is missing, its driver library is missing, or the driver refuses.
    """
    try:
        import pycuda.driver as cuda
    except ModuleNotFoundError:
        raise NoCuda("PyCUDA is not installed", _install()) from None
    except ImportError as error:
        loads = cuda_needs.driver_library_loads()
        remedy = f"build it again: {REBUILD}" if loads else "install the NVIDIA driver"
        raise NoCuda(f"PyCUDA does not load ({error})", remedy) from None
    try:
        cuda.init()
    except cuda.Error as error:
        raise NoCuda(f"the NVIDIA driver refuses ({error})", "run nvidia-smi") from None
    return cuda


def _install() -> str:
    missing = cuda_needs.lacking()
    return f"{INSTALL} builds it" + (f", and lacks {missing}" if missing else "")


def require() -> int:
    """Return how many CUDA devices there are, at least one.

    Raises:
        NoCuda: There is none, or what it needs is missing; one line that says what.
    """
    number = int(driver().Device.count())
    if number == 0:
        raise NoCuda("the driver shows no GPU", "check nvidia-smi")
    return number


def count() -> int:
    """Return how many CUDA devices there are; 0 without PyCUDA or a driver."""
    try:
        return require()
    except NoCuda:
        return 0


def why_none() -> str:
    """Return why no CUDA device is used: there is no NVIDIA GPU, or something is missing although there is one."""
    if not cuda_needs.gpu_present():
        return NO_GPU
    try:
        require()
    except NoCuda as error:
        return f"an NVIDIA GPU is there, but {error.what}: {error.remedy}"
    return ""


def describe(number: int) -> str:
    """Return a device's model, compute capability, memory and driver in one line, without opening it."""
    cuda = driver()
    device = cuda.Device(number)
    major, minor = device.compute_capability()
    return f"{device.name()}, sm_{major}{minor}, {device.total_memory() >> 20:,} MiB, driver {driver_version(cuda)}"


def driver_version(cuda: Any) -> str:
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:
        version = cuda.get_driver_version()
        return f"CUDA {version // 1000}.{version % 1000 // 10}"


def multiprocessor(attribute: Any, get: Any, limits: DeviceLimits) -> Multiprocessor | None:
    """Return a multiprocessor's resources, or None if this PyCUDA cannot query them."""
    if limits.capability < FIRST_KNOWN or not hasattr(attribute, "MAX_BLOCKS_PER_MULTIPROCESSOR"):
        return None  # older cards allocate shared memory in other units
    return Multiprocessor(
        threads=get(attribute.MAX_THREADS_PER_MULTIPROCESSOR),
        blocks=get(attribute.MAX_BLOCKS_PER_MULTIPROCESSOR),
        registers=get(attribute.MAX_REGISTERS_PER_MULTIPROCESSOR),
        block_registers=limits.registers,
        shared_bytes=get(attribute.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    )


def shared_optin(cuda: Any, device: Any) -> int:
    optin = getattr(cuda.device_attribute, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", None)
    if optin is not None:
        return int(device.get_attribute(optin))
    return int(device.get_attribute(cuda.device_attribute.MAX_SHARED_MEMORY_PER_BLOCK))
