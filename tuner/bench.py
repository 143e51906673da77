"""The bench: guarded buffers of one layer on one device, and the kernels that fill, compare and seal them.

x, w and y lie between guard zones, at addresses that differ from process to process. What the guards and y hold
before a launch follows from a key drawn for that launch: NaNs of both kinds, huge numbers, near misses of the right
result.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner.cache import CompileCache
from tuner.devices import Array, Buffer, Device, Kernel, compile_source
from tuner.errors import DeviceError, UsageError
from tuner.layers import FLOAT_BYTES, ConvLayer
from tuner.protocol import Protocol
from tuner.reference import compare, reference_conv
from tuner.render import block_defines, prelude
from tuner.templates import Launch

GUARD_BYTES = 2 << 20
INPUT_GUARD_BYTES = 64 << 10
PAGE_BYTES = 4096
MOST_PAGES = 64  # of a gap between two buffers
THREADS = 256
MAX_BLOCKS = 4096
BLOCKS_PER_CORE = 8  # on a CPU: few work-items with long runs of elements
MAX_ELEMENTS = 2**32 - 1
CHUNK = 4096  # elements of a plane that a block takes at once; as in bench.cu
SCOUR_BYTES = 64 << 10  # of a work-group's memory, where kernels run on the host
SCOUR_REGISTERS = 200  # of each of 256 threads: nearly all that a multiprocessor has
REPORT_WORDS = 16
FIRSTS = (1, 5, 8, 13)  # words of the report that hold the index of a first, not a count
FLUSH_SHARE = 1.25  # of the last-level cache


class Guarded:
    """A buffer between two guard zones.

    Args:
        nbytes: Of the buffer itself.
        guard: Bytes of each zone, a multiple of a page.
    """

    def __init__(self, device: Device, nbytes: int, guard: int) -> None:
        self.spared = 1 if guard == INPUT_GUARD_BYTES else 0  # what is read beyond an input is NaN
        self.begin, self.words = guard // 4, (2 * guard + nbytes) // 4
        self.whole = device.allocate(4 * self.words)
        self.inner = device.view(self.whole, guard, nbytes)


class Bench:
    """The bench's own kernels and the guarded buffers of a layer.

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
        self._report = device.allocate(4 * REPORT_WORDS)
        wanted = {
            "x": (FLOAT_BYTES * layer.B * layer.C * layer.H * layer.W, INPUT_GUARD_BYTES),
            "w": (FLOAT_BYTES * layer.M * layer.reduction, INPUT_GUARD_BYTES),
            "y": (FLOAT_BYTES * layer.y_size, GUARD_BYTES),
        }
        self._gaps: list[Buffer] = []
        made = {name: self._allocated(*wanted[name]) for name in shuffled(list(wanted))}
        self.guarded_x, self.guarded_w, self.guarded_y = made["x"], made["w"], made["y"]
        self.x, self.w, self.y = self.guarded_x.inner, self.guarded_w.inner, self.guarded_y.inner
        self.guard_key = drawn_key()
        for guarded in (self.guarded_x, self.guarded_w):
            self.fill_poison(guarded, 0, guarded.words, self.guard_key)
        flush = int(FLUSH_SHARE * device.cache_bytes)
        self._flush_words = flush // 4 if 4 * self.guarded_y.words < flush else 0
        self._flush = device.allocate(4 * self._flush_words) if self._flush_words else None
        self._scour = self._scourer()

    def _allocated(self, nbytes: int, guard: int) -> Guarded:
        """Return a guarded buffer after a gap of random size."""
        self._gaps.append(self.device.allocate(PAGE_BYTES * (1 + secrets.randbelow(MOST_PAGES))))
        return Guarded(self.device, nbytes, guard)

    @property
    def flush_bytes(self) -> int:
        """Bytes that a cold launch has written before it."""
        return 4 * (self.guarded_y.words + self._flush_words)

    def prepared(self, name: str, elements: int) -> tuple[Kernel, Launch]:
        """Return one of the kernels of bench.cu and a launch that covers ``elements`` items."""
        launch = Launch(grid=(max(1, min(-(-elements // THREADS), self._most_blocks)), 1, 1), block=(THREADS, 1, 1))
        if name not in self._kernels:
            self._kernels[name] = self.device.load(self._binary, name, launch)
        return self._kernels[name], launch

    def run(self, name: str, elements: int, *arguments: Any) -> None:
        """Start one of the kernels of bench.cu."""
        self.device.launch(*self.prepared(name, elements), arguments)

    def run_planes(self, name: str, planes: int, size: int, *arguments: Any) -> None:
        """Start a kernel that walks ``planes`` planes of ``size`` neighbours; see EACH_IN_PLANES of bench.cu."""
        chunks = planes * -(-size // CHUNK)
        self.run(name, chunks if self.device.shares_host else THREADS * chunks, *arguments)

    def clear_report(self) -> Buffer:
        """Return the report, empty: sixteen words for kernels to fill."""
        words = np.zeros(REPORT_WORDS, dtype=np.uint32)
        words[list(FIRSTS)] = 0xFFFFFFFF
        self.device.upload(self._report, words)
        return self._report

    def read_report(self) -> list[int]:
        """Return the report's words, once all kernels before are done."""
        words: list[int] = self.device.download(self._report, np.uint32, REPORT_WORDS).tolist()
        return words

    def convolve(self, x: Buffer, w: Buffer, y: Buffer, layer: ConvLayer) -> None:
        """Run the plain FP32 reference convolution."""
        self.run("reference_conv", layer.y_size, x, w, y, *sizes(layer))

    def convolve_exactly(self, x: Buffer, w: Buffer, y: Buffer, layer: ConvLayer) -> None:
        """Run the convolution summed in float64."""
        self.run("exact_conv", layer.y_size, x, w, y, *sizes(layer))

    def time_reference(self, x: Buffer, w: Buffer, layer: ConvLayer, samples: int) -> tuple[float, ...]:
        """Return seconds of the reference kernel on ``layer``; overwrites y."""
        kernel, launch = self.prepared("reference_conv", layer.y_size)
        arguments = (x, w, self.y, *sizes(layer))
        timed = (self.device.timed(kernel, launch, arguments, limit=600.0, repeat=1) for _ in range(samples))
        return tuple(max(seconds, self.device.timer_resolution) for seconds in timed)

    def largest(self, values: Buffer, count: int) -> float:
        """Return max |value| of a device buffer."""
        self.run("largest", count, values, np.uint64(count), self.clear_report())
        return _float_of(self.read_report()[2])

    def largest_difference(self, one: Buffer, other: Buffer, count: int) -> float:
        """Return max |one - other| of two device buffers."""
        self.run("difference", count, one, other, np.uint64(count), self.clear_report())
        return _float_of(self.read_report()[2])

    def seals(self, buffers: Sequence[tuple[Buffer, int]], key: int) -> list[int]:
        """Return keyed sums of some buffers' words, two a buffer.

        Args:
            buffers: At most five, each with its number of words.
        """
        self.device.upload(self._report, np.zeros(REPORT_WORDS, dtype=np.uint32))
        for number, (words, count) in enumerate(buffers):
            slot = np.uint32(2 * number)
            self.run("seal", count, words, np.uint64(count), np.uint32(key), slot, self._report)
        return self.read_report()[: 2 * len(buffers)]

    def mask(self, source: Buffer, target: Buffer, count: int, key: int) -> None:
        """Write words masked with a key, or unmask masked ones."""
        self.run("mask_words", count, source, target, np.uint64(count), np.uint32(key))

    def fill_poison(self, guarded: Guarded, begin: int, end: int, key: int) -> None:
        """Fill words of a guarded buffer, counted from the begin of its first zone."""
        if end > begin:
            self.run("fill_poison", end - begin, guarded.whole, *_words(guarded, begin, end, key))

    def check_poison(self, guarded: Guarded, begin: int, end: int, key: int, slot: int) -> None:
        """Count words that are not as :meth:`fill_poison` left them into the report's ``slot`` and the next two."""
        if end > begin:
            words = *_words(guarded, begin, end, key), np.uint32(slot)
            self.run("check_poison", end - begin, guarded.whole, *words, self._report)

    def scour(self) -> None:
        """Leave NaN in the shared memory and the registers that the next kernel gets."""
        kernel, launch, words = self._scour
        bits = 0x7FC00000 | secrets.randbelow(1 << 20)
        self.device.launch(kernel, launch, (self._report, np.uint32(words), np.uint32(bits)))

    def _scourer(self) -> tuple[Kernel, Launch, int]:
        device = self.device
        nbytes = scour_bytes(device)
        blocks = BLOCKS_PER_CORE * device.cores if device.shares_host else 2 * device.cores
        shared = 0 if device.limits.dialect == "opencl" else nbytes
        launch = Launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1), shared_bytes=shared)
        return device.load(self._binary, "scour", launch), launch, nbytes // 4

    def flush(self, protocol: Protocol) -> None:
        """Push what is in the last-level cache out, where writing y before a launch has not done so."""
        if self._flush is not None and not protocol.warm_l2:
            self.run("fill_words", self._flush_words, self._flush, np.uint64(self._flush_words), np.uint32(0))

    def _number(self, buffer: Buffer, position: int) -> float:
        return float(self.device.download(buffer, np.float32, 1, offset=FLOAT_BYTES * position)[0])


def _words(guarded: Guarded, begin: int, end: int, key: int) -> tuple[np.generic, ...]:
    return np.uint64(begin), np.uint64(end), np.uint32(key), np.uint32(guarded.spared)


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


def scour_bytes(device: Device) -> int:
    """Return how much of a block's shared memory is scoured: all of it on a GPU."""
    return min(device.limits.shared_bytes, SCOUR_BYTES) if device.shares_host else device.limits.shared_bytes


def drawn_key() -> int:
    """Return a key that nothing on the device can foresee."""
    return secrets.randbits(32)


def shuffled(names: list[str]) -> list[str]:
    """Return the names in random order."""
    secrets.SystemRandom().shuffle(names)
    return names


def hashed(index: int, key: int) -> int:
    """Return HASH(index, key) of bench.cu."""
    h = (index * 0x9E3779B1 ^ key) & 0xFFFFFFFF
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def _float_of(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def _compile_bench(device: Device) -> bytes:
    source = "\n".join(
        (
            prelude(device.limits.dialect),
            block_defines(Launch(grid=(1, 1, 1), block=(THREADS, 1, 1))),
            f"#define SCOUR_WORDS {scour_bytes(device) // 4}",
            f"#define SCOUR_REGISTERS {SCOUR_REGISTERS}",
            "#define OWN_RUNS" if device.shares_host else "",
            Path(__file__).with_name("bench.cu").read_text(encoding="utf-8"),
        )
    )
    return CompileCache.default().get_or_make(
        device.environment, source, lambda: compile_source(device.environment, source)
    )
