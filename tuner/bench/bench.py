"""The bench: guarded buffers of one problem on one device, and the kernels that fill, compare and seal them.

Inputs and output lie between guard zones, at addresses that differ from process to process. What the guards and y hold
before a launch follows from a key drawn for that launch: NaNs of both kinds, huge numbers, near misses of the right
result.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner.bench.guards import (
    GUARD_BYTES,
    INPUT_GUARD_BYTES,
    PAGE_BYTES,
    Deck,
    Guarded,
    drawn_key,
    poison_arguments,
    shuffled,
)
from tuner.bench.protocol import Protocol
from tuner.bench.room import check_fits
from tuner.bench.turns import elements_turn
from tuner.devices import Array, Buffer, Device, Kernel, compile_source
from tuner.devices.cache import CompileCache
from tuner.errors import DeviceError
from tuner.kernels.launch import Launch
from tuner.kernels.render import block_defines, prelude
from tuner.problems.accuracy import compare
from tuner.problems.problem import FLOAT_BYTES, HERE, Problem, Tensor

MOST_PAGES = 64  # of a gap between two buffers
THREADS = 256
MAX_BLOCKS = 4096
BLOCKS_PER_CORE = 8  # on a CPU: few work-items with long runs of elements
PARTS = "bench.cu", "ceilings.cu"  # of the text of the bench's own kernels, in order
CHUNK = 4096  # elements of a plane that a block takes at once; as in bench.cu
SCOUR_BYTES = 64 << 10  # of a work-group's memory, where kernels run on the host
SCOUR_REGISTERS = 200  # of each of 256 threads: nearly all that a multiprocessor has
REPORT_WORDS = 16
FIRSTS = (1, 5, 8, 13)  # words of the report that hold the index of a first, not a count
FLUSH_SHARE = 1.25  # of the last-level cache
NAN, HUGE = 0x7FC00000, 0x70000000  # bits of a number that nothing may use


class Bench:
    """The bench's own kernels and the guarded buffers of a problem.

    Args:
        device: An opened device, owned by this process.
        problem: Its rows are the most that will be run.

    Attributes:
        guarded: The buffers between their zones, by the tensors' names.
        y: The output, without its zones.

    Raises:
        UsageError: The output has more elements than can be indexed, or the tensors are more than the device's memory.
        OutOfResources: The buffers do not fit the device.
    """

    def __init__(self, device: Device, problem: Problem) -> None:
        check_fits(problem, device.memory_bytes)
        self.device, self.problem = device, problem
        self._binary = _compile_bench(device, problem)
        self._kernels: dict[str, Kernel] = {}
        self._most_blocks = BLOCKS_PER_CORE * device.cores if device.shares_host else MAX_BLOCKS
        self._report = device.allocate(4 * REPORT_WORDS)
        self._gaps: list[Buffer] = []
        self.guarded = {tensor.name: self._allocated(tensor) for tensor in shuffled(problem.tensors)}
        self.output = self.guarded[problem.output.name]
        self.y = self.output.inner
        self.guard_key = drawn_key()
        for tensor in problem.inputs:
            guarded = self.guarded[tensor.name]
            self.fill_poison(guarded, 0, guarded.words, self.guard_key)
        flush = int(FLUSH_SHARE * device.cache_bytes)
        self._flush_words = flush // 4 if 4 * self.output.words < flush else 0
        self._flush = device.allocate(4 * self._flush_words) if self._flush_words else None
        self._scour, self._leftovers = self._scourer(), Deck(NAN, NAN, NAN, HUGE)

    def _allocated(self, tensor: Tensor) -> Guarded:
        """Return a guarded buffer after a gap of random size."""
        guard = GUARD_BYTES if tensor.output else INPUT_GUARD_BYTES
        self._gaps.append(self.device.allocate(PAGE_BYTES * (1 + secrets.randbelow(MOST_PAGES))))
        return Guarded(self.device, tensor.nbytes, guard)

    @property
    def flush_bytes(self) -> int:
        """Bytes that a cold launch has written before it."""
        return 4 * (self.output.words + self._flush_words)

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

    def arguments(self, problem: Problem, buffers: Mapping[str, Buffer] | None = None) -> tuple[Any, ...]:
        """Return what every kernel of a problem takes: its tensors in order, then its sizes.

        Args:
            problem: The bench's, with any number of rows, or another of its kind.
            buffers: By the tensors' names, where they are not the bench's own.
        """
        chosen = {name: guarded.inner for name, guarded in self.guarded.items()} | dict(buffers or {})
        numbers = (np.int32(size) for size in problem.sizes.values())
        return (*(chosen[tensor.name] for tensor in problem.tensors), *numbers)

    def reference(self, problem: Problem, buffers: Mapping[str, Buffer]) -> None:
        """Run the plain FP32 kernel."""
        self.run("reference", problem.output.size, *self.arguments(problem, buffers))

    def exact_reference(self, problem: Problem, buffers: Mapping[str, Buffer]) -> None:
        """Run the same kernel with its sums in float64."""
        self.run("exact_reference", problem.output.size, *self.arguments(problem, buffers))

    def time_reference(self, problem: Problem, buffers: Mapping[str, Buffer], samples: int) -> tuple[float, ...]:
        """Return seconds of the plain kernel; overwrites the output."""
        kernel, launch = self.prepared("reference", problem.output.size)
        arguments = self.arguments(problem, buffers)
        timed = (self.device.timed(kernel, launch, arguments, limit=600.0, repeat=1) for _ in range(samples))
        return tuple(max(seconds, self.device.timer_resolution) for seconds in timed)

    def uploaded(self, array: Array) -> Buffer:
        """Return a new buffer with an array's contents."""
        buffer = self.device.allocate(array.nbytes)
        self.device.upload(buffer, array)
        return buffer

    def allocated(self, elements: int) -> Buffer:
        """Return a new buffer of float32."""
        return self.device.allocate(FLOAT_BYTES * elements)

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
            self.run("fill_poison", end - begin, guarded.whole, *poison_arguments(guarded, begin, end, key))

    def check_poison(self, guarded: Guarded, begin: int, end: int, key: int, slot: int) -> None:
        """Count words that are not as :meth:`fill_poison` left them into the report's ``slot`` and the next two."""
        if end > begin:
            words = *poison_arguments(guarded, begin, end, key), np.uint32(slot)
            self.run("check_poison", end - begin, guarded.whole, *words, self._report)

    def scour(self, shared_bytes: int = 0) -> None:
        """Leave NaN or a huge number in the shared memory and the registers that the next kernel gets.

        Args:
            shared_bytes: Of a block of that kernel.
        """
        kernel, launch, words = self._scour
        words = max(words, min(shared_bytes, self.device.limits.shared_bytes) // 4)
        bits = self._leftovers.draw() | secrets.randbelow(1 << 20)
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


def confirm_reference(bench: Bench, stock: Mapping[str, Buffer], expected: Buffer, tolerance: float) -> None:
    """Compare the device's reference output with NumPy in float64 on the first, a middle and the last row.

    Raises:
        DeviceError: They differ by more than ``tolerance``: nothing this device says could be trusted.
    """
    problem = bench.problem
    one = problem.with_rows(1)
    whole = {tensor.name: _part(bench, stock, tensor, 0) for tensor in problem.inputs if not tensor.rows}
    for row in sorted({0, problem.rows // 2, problem.rows - 1}):
        rows = {tensor.name: _part(bench, stock, tensor, row) for tensor in one.inputs if tensor.rows}
        right = one.expected(whole | rows)
        found = compare(_part(bench, {one.output.name: expected}, one.output, row), right, tolerance)
        if not found.ok:
            raise DeviceError(
                f"device {bench.device.environment.device}: its reference is off by {found.max_abs_error:.3g} in "
                f"{problem.ROWS_NOUN.rstrip('s')} {row}, tolerance {tolerance:.3g}; check driver and hardware"
            )


def _part(bench: Bench, buffers: Mapping[str, Buffer], tensor: Tensor, row: int) -> Array:
    """Download a tensor, or as many rows of a larger one, from a row on."""
    offset = row * tensor.nbytes // (tensor.shape[0] if tensor.rows else 1)
    words: Array = bench.device.download(buffers[tensor.name], np.float32, tensor.size, offset=offset)
    return words.reshape(tensor.shape)


def scour_bytes(device: Device) -> int:
    """Return how much of a block's shared memory is scoured: all of it on a GPU."""
    return min(device.limits.shared_bytes, SCOUR_BYTES) if device.shares_host else device.limits.shared_bytes


def _float_of(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def _compile_bench(device: Device, problem: Problem) -> bytes:
    sums = (HERE / "sums.h").read_text(encoding="utf-8")
    source = "\n".join(
        (
            prelude(device.limits.dialect),
            block_defines(Launch(grid=(1, 1, 1), block=(THREADS, 1, 1))),
            f"#define SCOUR_WORDS {device.limits.shared_bytes // 4}",
            f"#define SCOUR_REGISTERS {SCOUR_REGISTERS}",
            "#define OWN_RUNS" if device.shares_host else "",
            "#define ELEMENTS_TURN" if elements_turn(problem) else "",
            *(Path(__file__).with_name(part).read_text(encoding="utf-8") for part in PARTS),
            sums,
            problem.reference,
            "#define EXACT\n#define KERNELS_OF_ITS_KIND",
            sums,
            problem.reference,
        )
    )
    return CompileCache.default().get_or_make(
        device.environment, source, lambda: compile_source(device.environment, source)
    )
