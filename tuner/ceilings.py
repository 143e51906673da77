"""The device's ceilings, measured: memory bandwidth and float32 multiply-add peak; the roofline's floor follows.

They are measured once per device and driver and kept in the cache folder.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tuner.bench import THREADS, Bench
from tuner.cache import cache_folder, write_whole
from tuner.results import Environment
from tuner.templates import OPENCL, Launch

COPY_BYTES = 1 << 30
CHAINS = 16  # as in bench.cu
OPENCL_LANES = 16  # a float16 a thread
SAMPLES = 4
LIMIT = 60.0
TARGET_SECONDS = 0.005
MAX_ROUNDS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Best of a few samples, in FLOP/s (a multiply-add is two) and bytes/s (a copy counts read plus written)."""

    flops: float
    bytes: float


def with_ceilings(bench: Bench, environment: Environment) -> Environment:
    """Return the environment with its peaks, from the cache or measured now.

    A CPU shares its cores with whatever else runs, so it is measured every time and the best ever seen is kept.
    """
    path = cache_folder() / "ceilings" / f"{_slug(environment)}.json"
    known = _read(path)
    if known is None or bench.device.shares_host:
        now = Ceilings(flops=_peak_flops(bench), bytes=_peak_bytes(bench))
        best = now if known is None else Ceilings(flops=max(now.flops, known.flops), bytes=max(now.bytes, known.bytes))
        _write(path, best)
        known = best
    return replace(environment, peak_flops=known.flops, peak_bytes=known.bytes)


def _write(path: Path, found: Ceilings) -> None:
    with suppress(OSError):  # a cache that cannot be written is measured again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"flops": found.flops, "bytes": found.bytes}).encode())


def _read(path: Path) -> Ceilings | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return Ceilings(flops=float(stored["flops"]), bytes=float(stored["bytes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _slug(environment: Environment) -> str:
    text = f"{environment.model}-{environment.driver}"
    return "".join(letter if letter.isalnum() else "_" for letter in text)


def _peak_bytes(bench: Bench) -> float:
    """Copy between, and write to, buffers several times the last-level cache; the best of a few grids."""
    device = bench.device
    wanted = max(4 * device.cache_bytes, 1 << 26) if device.shares_host else COPY_BYTES  # shorter copies read low
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
    return min(bench.device.timed(kernel, grid, arguments, limit=LIMIT, repeat=1) for _ in range(SAMPLES))


def _peak_flops(bench: Bench) -> float:
    """Run long independent chains on every lane, long enough to hide the launch."""
    device = bench.device
    blocks = 4 * (os.cpu_count() or 1) if device.shares_host else 132 * 16
    launch = Launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1))
    out = device.allocate(4 * blocks * THREADS)
    rounds, seconds = 64, 0.0
    while seconds < TARGET_SECONDS and rounds < MAX_ROUNDS:
        rounds *= 4
        arguments = (out, np.int32(rounds), np.float32(0.9999), np.float32(1e-4))
        seconds = _best(bench, "multiply_add", launch, arguments)
    lanes = OPENCL_LANES if device.limits.dialect == OPENCL else 1
    return 2.0 * CHAINS * lanes * rounds * blocks * THREADS / seconds
