"""The bench: buffers, inputs and reference of one layer on one device, and the check of an output.

y lies between two guard zones. Before a checked launch all of it is filled with a signalling NaN; afterwards every
element of y is compared with the reference on the device, and the guard zones, x and w must be untouched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tuner.cache import CompileCache
from tuner.devices import Array, Buffer, Device, Kernel, compile_source
from tuner.errors import DeviceError, UsageError, WrongResult
from tuner.layers import FLOAT_BYTES, ConvLayer
from tuner.protocol import Protocol
from tuner.reference import compare, reference_conv
from tuner.render import block_defines, prelude
from tuner.templates import Launch

POISON = 0x7FA00001  # a signalling NaN
GUARD_BYTES = 2 << 20
THREADS = 256
MAX_BLOCKS = 4096
BLOCKS_PER_CORE = 8  # on a CPU: few work-items with long runs of elements
MAX_ELEMENTS = 2**32 - 1
NO_REPORT = np.array([0, 0xFFFFFFFF, 0, 0], dtype=np.uint32)
FLUSH_SHARE = 1.25  # of the last-level cache


class Bench:
    """The bench's own kernels and the guarded output buffer of a layer.

    Args:
        device: An opened device, owned by this process.
        layer: Its batch is the largest that will be run.

    Raises:
        UsageError: y has more elements than can be indexed, or x, w and y are more than the device's memory.
        OutOfResources: The buffers do not fit the device.
    """

    def __init__(self, device: Device, layer: ConvLayer) -> None:
        if layer.y_size > MAX_ELEMENTS:
            raise UsageError(
                f"layer {layer.name}: y has {layer.y_size:,} elements, limit {MAX_ELEMENTS:,}; "
                + ("lower --batch" if layer.B > 1 else "give smaller sizes")
            )
        _check_fits(layer, device.memory_bytes)
        self.device, self.layer = device, layer
        self._binary = _compile_bench(device)
        self._kernels: dict[str, Kernel] = {}
        self._most_blocks = BLOCKS_PER_CORE * device.cores if device.shares_host else MAX_BLOCKS
        self._report = device.allocate(NO_REPORT.nbytes)
        self._words = (GUARD_BYTES + FLOAT_BYTES * layer.y_size + GUARD_BYTES) // 4
        self._guarded = device.allocate(4 * self._words)
        self.y = device.view(self._guarded, GUARD_BYTES, FLOAT_BYTES * layer.y_size)
        flush = int(FLUSH_SHARE * device.cache_bytes)
        self._flush_words = flush // 4 if 4 * self._words < flush else 0
        self._flush = device.allocate(4 * self._flush_words) if self._flush_words else None

    @property
    def flush_bytes(self) -> int:
        """Bytes that :meth:`cool` writes."""
        return 4 * (self._words + self._flush_words)

    def prepared(self, name: str, elements: int) -> tuple[Kernel, Launch]:
        """Return one of the kernels of bench.cu and a launch that covers ``elements`` items."""
        launch = Launch(grid=(max(1, min(-(-elements // THREADS), self._most_blocks)), 1, 1), block=(THREADS, 1, 1))
        if name not in self._kernels:
            self._kernels[name] = self.device.load(self._binary, name, launch)
        return self._kernels[name], launch

    def run(self, name: str, elements: int, *arguments: Any) -> None:
        """Start one of the kernels of bench.cu."""
        self.device.launch(*self.prepared(name, elements), arguments)

    def report(self, name: str, elements: int, *arguments: Any) -> tuple[int, int, int, int]:
        """Run a kernel that fills the four-word report, and return the report."""
        self.device.upload(self._report, NO_REPORT)
        self.run(name, elements, *arguments, self._report)
        first, second, third, fourth = self.device.download(self._report, np.uint32, 4).tolist()
        return first, second, third, fourth

    def convolve(self, x: Buffer, w: Buffer, y: Buffer, layer: ConvLayer) -> None:
        """Run the reference convolution."""
        self.run("reference_conv", layer.y_size, x, w, y, *sizes(layer))

    def time_reference(self, x: Buffer, w: Buffer, layer: ConvLayer, samples: int) -> tuple[float, ...]:
        """Return seconds of the reference kernel on ``layer``; overwrites y."""
        kernel, launch = self.prepared("reference_conv", layer.y_size)
        arguments = (x, w, self.y, *sizes(layer))
        timed = (self.device.timed(kernel, launch, arguments, limit=600.0, repeat=1) for _ in range(samples))
        return tuple(max(seconds, self.device.timer_resolution) for seconds in timed)

    def largest(self, values: Buffer, count: int) -> float:
        """Return max |value| of a device buffer."""
        bits = self.report("largest", count, values, np.uint64(count))[2]
        return float(np.uint32(bits).view(np.float32))

    def checksum(self, values: Buffer, count: int) -> int:
        """Return a hash of a device buffer's words."""
        return self.report("checksum", count, values, np.uint64(count))[0]

    def poison(self) -> None:
        """Fill y and its guard zones with NaN."""
        self.run("fill_words", self._words, self._guarded, np.uint64(self._words), np.uint32(POISON))

    def cool(self, protocol: Protocol) -> None:
        """Make the next launch start from cold caches: poisoning a large y does it, a small one needs more."""
        if protocol.warm_l2:
            return
        self.poison()
        if self._flush is not None:
            self.run("fill_words", self._flush_words, self._flush, np.uint64(self._flush_words), np.uint32(0))

    def verify(self, expected: Buffer, layer: ConvLayer, tolerance: float) -> float:
        """Check every element of y, and that nothing around it was written; return the largest error.

        Args:
            expected: The reference's output for the same inputs.
            layer: As launched: with a smaller batch than the bench's, the rest of y counts as guard zone.

        Raises:
            WrongResult: Names the first wrong (b, m, h, w), what it is and should be, or the nearest word overwritten
                outside y.
        """
        n = layer.y_size
        report = self.report("compare", n, self.y, expected, np.uint64(n), np.float32(tolerance))
        if report[0]:
            raise WrongResult(self._describe(report, expected, layer, tolerance))
        guard, end = GUARD_BYTES // 4, GUARD_BYTES // 4 + n
        if before := self._overwritten(0, guard):
            raise WrongResult(f"{before[0]} word(s) before y overwritten, the nearest {guard - before[2]} before it")
        if after := self._overwritten(end, self._words):
            raise WrongResult(f"{after[0]} word(s) after y overwritten, the nearest {after[1] + 1} behind its end")
        return float(np.uint32(report[2]).view(np.float32))

    def _overwritten(self, begin: int, end: int) -> tuple[int, int, int, int] | None:
        arguments = (self._guarded, np.uint64(begin), np.uint64(end), np.uint32(POISON))
        report = self.report("check_words", end - begin, *arguments)
        return report if report[0] else None

    def _describe(self, report: tuple[int, int, int, int], expected: Buffer, layer: ConvLayer, tolerance: float) -> str:
        wrong, first, bits, missing = report
        b, m, h, w = (int(i) for i in np.unravel_index(first, layer.y_shape))
        got = self._number(self._guarded, GUARD_BYTES // FLOAT_BYTES + first)
        wanted = self._number(expected, first)
        largest = float(np.uint32(bits).view(np.float32))
        kind = f"{missing:,} of them NaN or never written" if missing else f"largest difference {largest:.3g}"
        return (
            f"{wrong:,} of {layer.y_size:,} elements are wrong, {kind}; first at (b, m, h, w) = ({b}, {m}, {h}, {w}): "
            f"got {got:.7g}, wanted {wanted:.7g}, difference {abs(got - wanted):.3g}; tolerance {tolerance:.3g}"
        )

    def _number(self, buffer: Buffer, position: int) -> float:
        return float(self.device.download(buffer, np.float32, 1, offset=FLOAT_BYTES * position)[0])


def sizes(layer: ConvLayer) -> tuple[np.int32, ...]:
    """Return the run-time sizes every convolution kernel takes after x, w and y: B, C, H, W, M, K."""
    return tuple(np.int32(getattr(layer, size)) for size in ("B", "C", "H", "W", "M", "K"))


def _check_fits(layer: ConvLayer, memory_bytes: int) -> None:
    """Refuse a layer whose x, w, y and reference output are more than a device's memory, before anything is allocated.

    A host that promises more memory than it has would kill this process later, without a word.

    Raises:
        UsageError: Names what is needed and what there is.
    """
    x, w = layer.B * layer.C * layer.H * layer.W, layer.M * layer.reduction
    needed = FLOAT_BYTES * (x + w + 2 * layer.y_size)
    if needed > memory_bytes:
        raise UsageError(
            f"layer {layer.name}: x, w, y and the reference's y take {needed / 1e9:,.1f} GB, the device has "
            f"{memory_bytes / 1e9:,.1f}; " + ("lower --batch" if layer.B > 1 else "give smaller sizes")
        )


def confirm_reference(bench: Bench, x: Buffer, w: Array, expected: Buffer, tolerance: float) -> None:
    """Compare the device's reference output with NumPy in float64 on the first, a middle and the last image.

    Raises:
        DeviceError: They differ by more than ``tolerance``: nothing this device says could be trusted.
    """
    layer = bench.layer
    one_x, one_y = layer.C * layer.H * layer.W, layer.M * layer.H_out * layer.W_out
    for image in sorted({0, layer.B // 2, layer.B - 1}):
        x_host = bench.device.download(x, np.float32, one_x, offset=FLOAT_BYTES * image * one_x)
        y_host = bench.device.download(expected, np.float32, one_y, offset=FLOAT_BYTES * image * one_y)
        right = reference_conv(x_host.reshape(1, *layer.x_shape[1:]), w)
        found = compare(y_host.reshape(1, *layer.y_shape[1:]), right, tolerance)
        if not found.ok:
            raise DeviceError(
                f"device {bench.device.environment.device}: its reference is off by {found.max_abs_error:.3g} in image "
                f"{image}, tolerance {tolerance:.3g}; check driver and hardware"
            )


def _compile_bench(device: Device) -> bytes:
    source = "\n".join(
        (
            prelude(device.limits.dialect),
            block_defines(Launch(grid=(1, 1, 1), block=(THREADS, 1, 1))),
            "#define OWN_RUNS" if device.shares_host else "",
            Path(__file__).with_name("bench.cu").read_text(encoding="utf-8"),
        )
    )
    return CompileCache.default().get_or_make(
        device.environment, source, lambda: compile_source(device.environment, source)
    )
