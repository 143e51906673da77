"""Build and launch one configuration on PoCL: what the kernel tests need of a device, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.devices import opencl
from tuner.kernels.render import render
from tuner.kernels.template import OPENCL, Configuration, DeviceLimits, KernelTemplate
from tuner.problems.conv.layers import ConvLayer

GUARD = 1024  # poisoned words before and after y
F32 = npt.NDArray[np.float32]

CPU_LIMITS = DeviceLimits(
    dialect=OPENCL,
    max_threads=4096,
    max_block=(4096, 4096, 4096),
    shared_bytes=1 << 20,
    constant_bytes=1 << 20,
    registers=0,
    warp=1,
    vector_words=16,
)
NARROW_LIMITS = replace(CPU_LIMITS, vector_words=8)


@dataclass(frozen=True, slots=True)
class Pocl:
    """A CPU device with its queue."""

    context: Any
    queue: Any


@cache
def pocl() -> Pocl:
    import pyopencl as cl

    context = opencl.context(opencl.find("cpu"))
    return Pocl(context, cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE))


def build(source: str, words: int = CPU_LIMITS.vector_words) -> Any:
    """Compile ``source``; raises ``pyopencl.RuntimeError`` with the build log."""
    return opencl.build(opencl.find("cpu"), source, words)


def convolve(
    template: KernelTemplate,
    configuration: Configuration,
    layer: ConvLayer,
    inputs: tuple[F32, F32],
    words: int = CPU_LIMITS.vector_words,
) -> F32:
    """Run one configuration and return y as the kernel left it between intact guards.

    Args:
        inputs: x and w.
        words: Of the widest vectors of the CPU.

    Raises:
        AssertionError: A word outside y was written.
    """
    import pyopencl as cl

    device = pocl()
    rendered = render(template, configuration, layer, OPENCL)
    kernel = cl.Kernel(build(rendered.source, words), rendered.entry)
    flags = cl.mem_flags
    x, w = (cl.Buffer(device.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=array) for array in inputs)
    guarded = np.full(layer.y_size + 2 * GUARD, np.nan, np.float32)
    whole = cl.Buffer(device.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=guarded)
    y_buffer = whole.get_sub_region(4 * GUARD, 4 * layer.y_size)
    sizes = [np.int32(getattr(layer, size)) for size in ("B", "C", "H", "W", "M", "K")]
    launch = rendered.launch
    total = tuple(blocks * threads for blocks, threads in zip(launch.grid, launch.block, strict=True))
    kernel(device.queue, total, launch.block, x, w, y_buffer, *sizes).wait()
    cl.enqueue_copy(device.queue, guarded, whole)
    assert np.isnan(guarded[:GUARD]).all(), f"{configuration}: wrote before y"
    assert np.isnan(guarded[-GUARD:]).all(), f"{configuration}: wrote after y"
    return guarded[GUARD:-GUARD].reshape(layer.y_shape)
