"""What the NVIDIA driver says through PyCUDA before a device is opened: which there are, and what they have."""

from __future__ import annotations

from typing import Any

from tuner.capabilities import WARPGROUPS
from tuner.devices.occupancy import Multiprocessor
from tuner.errors import UsageError
from tuner.templates import DeviceLimits

FIRST_KNOWN = 80  # sm_80: from there on the occupancy rules are the same
ELSE = "or use --device cpu"


def arch_of(major: int, minor: int) -> str:
    """Return what nvcc compiles for on this device alone: sm_90 has features of its own, those of sm_90a."""
    return f"sm_{major}{minor}" + ("a" if 10 * major + minor == WARPGROUPS else "")


def driver() -> Any:
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
    number = int(driver().Device.count())
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


def shared_optin(cuda: Any, device: Any) -> int:
    optin = getattr(cuda.device_attribute, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", None)
    if optin is not None:
        return int(device.get_attribute(optin))
    return int(device.get_attribute(cuda.device_attribute.MAX_SHARED_MEMORY_PER_BLOCK))
