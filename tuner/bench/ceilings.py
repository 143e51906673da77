"""The device's ceilings, measured: memory bandwidth, float32 multiply-add peak, tensor cores; the floors follow.

They are measured when a device and driver are first used, and kept in the cache folder: the best of three runs'
measurements, since another process may have had the device during one.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tuner.bench.bench import THREADS, Bench
from tuner.bench.telemetry import disturbing
from tuner.files import write_whole
from tuner.folders import cache_folder
from tuner.kernels.capabilities import TENSOR_CORES, WARPGROUPS
from tuner.kernels.launch import Launch
from tuner.kernels.limits import CUDA, OPENCL
from tuner.results import Environment

COPY_BYTES = 1 << 30
CACHE_OF_A_CORE = 1 << 25  # more than any CPU's last-level cache has for each of its cores
CHAINS, MMA_CHAINS, WARPGROUP_STEPS = {CUDA: 16, OPENCL: 12}, 8, 8  # as in ceilings.cu
# FLOP of a warp's round, by kernel: a warp multiplies alone, or is a quarter of a warpgroup.
MMA_FLOP = {"multiply_tf32": 2 * 16 * 8 * 8 * MMA_CHAINS, "multiply_fp16": 2 * 16 * 8 * 16 * MMA_CHAINS}
WARPGROUP_FLOP = {
    "warpgroup_tf32": 2 * 64 * 64 * 8 * WARPGROUP_STEPS // 4,
    "warpgroup_fp16": 2 * 64 * 64 * 16 * WARPGROUP_STEPS // 4,
}
SAMPLES, HOST_SAMPLES = 4, 12  # a CPU has other work, too: more short looks find its cores free
LEAST_SAMPLES, ENOUGH_SECONDS = 4, 0.25  # a long copy is a long look: a few of those will do
LIMIT = 60.0
TARGET_SECONDS = 0.005
MAX_ROUNDS = 1 << 24
TIMES = 3  # that a device's ceilings are measured, in as many runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Best of a few samples, in FLOP/s (a multiply-add is two) and bytes/s (a copy counts read plus written).

    Attributes:
        tf32, fp16: Of tensor cores by ``mma.sync`` or, where that is faster, ``wgmma``, FP32 sums; None where there are
            none.
        times: How often they were measured undisturbed.
    """

    flops: float
    bytes: float
    tf32: float | None = None
    fp16: float | None = None
    times: int = 1

    def best(self, other: Ceilings) -> Ceilings:
        """Return the higher of each."""
        return Ceilings(
            flops=max(self.flops, other.flops),
            bytes=max(self.bytes, other.bytes),
            tf32=max((rate for rate in (self.tf32, other.tf32) if rate), default=None),
            fp16=max((rate for rate in (self.fp16, other.fp16) if rate), default=None),
            times=self.times + other.times,
        )


def with_ceilings(bench: Bench, environment: Environment, again: bool = False) -> Environment:
    """Return the environment with its peaks, from the cache or measured now; the best ever seen are kept.

    A CPU shares its cores with whatever else runs, so it is measured every time, another device the first times; one
    that was throttled meanwhile, other than by its own power limit, does not count.

    Args:
        again: Forget what is stored and measure now.
    """
    path = cache_folder() / "ceilings" / f"{_slug(environment)}.json"
    known = None if again else _read(path)
    if known is not None and known.tf32 is None and _has_tensor_cores(bench):
        known = None  # stored by a version that did not measure them
    if known is None or known.times < TIMES or bench.device.shares_host:
        now = _measure(bench)
        now = replace(now, times=0) if disturbing(bench.device.telemetry().throttle) else now
        known = now if known is None else now.best(known)
        _write(path, known)
    return replace(
        environment, peak_flops=known.flops, peak_bytes=known.bytes, peak_tf32=known.tf32, peak_fp16=known.fp16
    )


def _has_tensor_cores(bench: Bench) -> bool:
    return bench.device.limits.capability >= TENSOR_CORES


def _measure(bench: Bench) -> Ceilings:
    return Ceilings(
        flops=_peak_flops(bench),
        bytes=_peak_bytes(bench),
        tf32=_peak_tensor(bench, "tf32"),
        fp16=_peak_tensor(bench, "fp16"),
    )


def _write(path: Path, found: Ceilings) -> None:
    with suppress(OSError):  # a cache that cannot be written is measured again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(found)).encode())


def _read(path: Path) -> Ceilings | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        tensor = {name: float(stored[name]) for name in ("tf32", "fp16") if stored.get(name) is not None}
        times = int(stored.get("times", 1))
        return Ceilings(flops=float(stored["flops"]), bytes=float(stored["bytes"]), times=times, **tensor)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _slug(environment: Environment) -> str:
    compiled_for = f"-{environment.toolkit}" if environment.kind == "cpu" else ""
    text = f"{environment.model}-{environment.driver}-{environment.arch}{compiled_for}"
    return "".join(letter if letter.isalnum() else "_" for letter in text)


def _peak_bytes(bench: Bench) -> float:
    """Copy between, and write to, buffers several times the last-level cache; the best of a few grids."""
    device = bench.device
    cache = min(device.cache_bytes, device.cores * CACHE_OF_A_CORE)  # a virtual machine is told all of its host's
    wanted = max(4 * cache, 1 << 26) if device.shares_host else COPY_BYTES  # shorter copies read low
    nbytes = min(wanted, device.memory_bytes // 8) // 16 * 16
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    quads = nbytes // 16
    bench.run("write_words", quads, source, np.uint64(quads), np.float32(1))
    rates = []
    for share in (64,) if device.shares_host else (1, 4, 16, 64):  # steps a thread takes
        grid = Launch(grid=(max(1, quads // THREADS // share), 1, 1), block=(THREADS, 1, 1))
        copied = _best(bench, "copy_words", grid, (source, target, np.uint64(quads)))
        written = _best(bench, "write_words", grid, (target, np.uint64(quads), np.float32(1)))
        rates += [2 * nbytes / copied, nbytes / written]
    return max(rates)


def _best(bench: Bench, name: str, grid: Launch, arguments: tuple[Any, ...]) -> float:
    kernel, _ = bench.prepared(name, 1)
    samples = HOST_SAMPLES if bench.device.shares_host else SAMPLES
    taken: list[float] = []
    while len(taken) < LEAST_SAMPLES or (len(taken) < samples and sum(taken) < ENOUGH_SECONDS):
        taken.append(bench.device.timed(kernel, grid, arguments, limit=LIMIT, repeat=1))
    return min(taken)


def _peak_flops(bench: Bench) -> float:
    """Run long independent chains of multiply-adds on every lane."""
    device = bench.device
    launch = _full(bench)
    rounds, seconds = _long_enough(bench, "multiply_add", launch, (np.float32(0.9999), np.float32(1e-4)))
    chains = CHAINS[device.limits.dialect] * device.limits.vector_words
    return 2.0 * chains * rounds * launch.grid[0] * THREADS / seconds


def _peak_tensor(bench: Bench, kind: str) -> float | None:
    """Run long independent chains of products in every warp or warpgroup; return the fastest way's FLOP/s."""
    if not _has_tensor_cores(bench):
        return None
    flop = {**MMA_FLOP, **WARPGROUP_FLOP} if bench.device.limits.capability == WARPGROUPS else MMA_FLOP
    launch = _full(bench)
    warps = launch.grid[0] * THREADS // bench.device.limits.warp
    rates = []
    for name in flop:
        if name.endswith(kind):
            rounds, seconds = _long_enough(bench, name, launch, ())
            rates.append(float(flop[name]) * rounds * warps / seconds)
    return max(rates)


def _full(bench: Bench) -> Launch:
    blocks = bench.device.cores * (4 if bench.device.shares_host else 16)
    return Launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1))


def _long_enough(bench: Bench, name: str, launch: Launch, extra: tuple[Any, ...]) -> tuple[int, float]:
    """Return rounds that take long enough to hide the launch, and their seconds."""
    out = bench.device.allocate(4 * launch.grid[0] * THREADS)
    rounds, seconds = 64, 0.0
    while seconds < TARGET_SECONDS and rounds < MAX_ROUNDS:
        rounds *= 4
        seconds = _best(bench, name, launch, (out, np.int32(rounds), *extra))
    return rounds, seconds
