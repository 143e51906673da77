"""What may take how long on a machine with nothing else to do: ``python tests/benchmarks/limits.py``.

The suite counts statements and modules instead: on a busy machine a clock says nothing. Prints each figure with its
limit, and exits with 1 where one is missed. Limits of a GPU are held where there is one.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import support_path  # noqa: F401

ON_A_GPU = "sp18/conv2"
HELP = [sys.executable, "-c", "from tuner.cli import main; main()", "--help"]


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def help_comes() -> tuple[str, float, float]:
    """The best of five: what the machine does beside it is not ours."""
    best = min(seconds(lambda: subprocess.run(HELP, check=True, capture_output=True)) for _ in range(5))
    return "tune --help", best, 0.3


def results_load() -> tuple[str, float, float]:
    from toy_store import ENVIRONMENT, TEMPLATES, toy_key, toy_ok

    from tuner.storage import Store

    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "tuner.db") as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        handle.record_all([toy_ok(number) for number in range(384)])
        spent = seconds(lambda: [handle.results() for _ in range(26)])
    return "10,000 results read from a store", spent, 2.0


def a_million_configurations() -> tuple[str, float, float]:
    """Seconds of the processor for a million, scaled from the largest space there is."""
    from dataclasses import replace

    from spaces import enumerate_measured
    from templates import CUDA_LIMITS, TEMPLATES

    from tuner.problems.conv.layers import LAYERS

    found = enumerate_measured(list(TEMPLATES.values()), LAYERS["fa17/conv1"], replace(CUDA_LIMITS, precision="bf16"))
    return "a million configurations enumerated", found.seconds * 1e6 / found.size, 5.0


def proposals() -> Iterator[tuple[str, float, float]]:
    from toy_candidates import resumed

    for sizes, told in (((10,) * 6, 30), ((6, 6, 6, 6, 4, 4), 10_000)):
        what = f"{told:,} results of {math.prod(sizes):,} configurations"

        def begin(sizes: tuple[int, ...] = sizes, told: int = told) -> Any:
            sampler, _ = resumed(sizes, told)
            sampler.observe(sampler.propose(1)[0], 1.0)
            return sampler

        yield f"a search resumed, {what}", seconds(begin), 2.0
        sampler, spent = begin(), []
        for _ in range(25):
            started = time.perf_counter()
            row = sampler.propose(1)[0]
            spent.append(time.perf_counter() - started)
            sampler.observe(row, 1.0)
        yield f"a proposal, {what}", statistics.median(spent), 0.05


def on_a_gpu() -> Iterator[tuple[str, float, float]]:
    from gpu import why_none

    missing = why_none()
    if missing:
        print(f"no limits of a GPU here: {missing}")
        return
    yield _check_of_a_large_output()
    yield _fresh_worker()


def _check_of_a_large_output() -> tuple[str, float, float]:
    from tuner.bench.bench import Bench
    from tuner.bench.input_sets import own_inputs
    from tuner.bench.protocol import BenchSpec
    from tuner.devices import open_device
    from tuner.problems.conv.layers import find_layer

    layer, device = find_layer(ON_A_GPU), open_device("cuda:0")
    try:
        bench = Bench(device, layer)
        inputs = own_inputs(bench, BenchSpec(device="cuda:0", problem=layer))
        spent = []
        for _ in range(8):
            inputs.place(inputs.drawn())
            bench.reference(layer, {})
            device.synchronize()
            spent.append(seconds(inputs.verify))
        del bench, inputs
    finally:
        device.close()
    return f"check of an output of {4 * layer.y_size / 1e6:.0f} MB", statistics.median(spent[1:]), 0.005


def _fresh_worker() -> tuple[str, float, float]:
    from tuner.bench.protocol import BenchSpec
    from tuner.bench.worker import Worker
    from tuner.problems.conv.layers import find_layer

    with Worker(BenchSpec(device="cuda:0", problem=find_layer(ON_A_GPU))) as worker:
        worker.health()
        worker.replace()
        return "a new worker after a fault", seconds(worker.health), 3.0


def main() -> int:
    missed = 0
    for measured in (
        iter([help_comes()]),
        iter([results_load()]),
        iter([a_million_configurations()]),
        proposals(),
        on_a_gpu(),
    ):
        for name, spent, limit in measured:
            missed += spent > limit
            print(f"{name}: {1e3 * spent:,.1f} ms, limit {1e3 * limit:,.0f}{'  MISSED' if spent > limit else ''}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
