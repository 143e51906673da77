"""The tuner's own cost a trial - ask, claim, mark, tell, store - with everything else taken away.

    python tests/benchmarks/overhead.py --trials 10000 --sampler surrogate

A stand-in device answers at once, so what is left of a run's time is the tuner's; the store is a real file.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from typing import cast
from unittest.mock import patch

import support_path  # noqa: F401
from stand_in import InstantCompiler, InstantWorker
from templates import CUDA_LIMITS

from tuner.bench.worker import Worker
from tuner.kernels.loading import builtin_templates
from tuner.kernels.space import enumerate_space
from tuner.problems.conv.layers import find_layer
from tuner.results import Result
from tuner.storage import Store
from tuner.tuning import Observer, Progress, RunOptions
from tuner.tuning.assembly import open_run
from tuner.tuning.budget import Budget
from tuner.tuning.canary import Canary
from tuner.tuning.context import RunContext
from tuner.tuning.interrupt import Interrupt
from tuner.tuning.session import open_study


class Clock(Observer):
    """Notes when each trial ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def trial(self, result: Result, progress: Progress) -> None:
        self.times.append(time.perf_counter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--sampler", default="random")
    given = parser.parse_args()
    layer = find_layer("conv2")
    space = enumerate_space(tuple(builtin_templates().values()), layer, CUDA_LIMITS)
    clock, worker = Clock(), cast(Worker, InstantWorker())
    without_compiler = patch("tuner.tuning.pipeline.Compiler", InstantCompiler)
    with without_compiler, tempfile.TemporaryDirectory() as folder, Store.open(f"{folder}/t.db") as store:
        options = RunOptions(
            problem=layer,
            device="cuda:0",
            templates=tuple(part.template for part in space.parts),
            storage=f"{folder}/t.db",
            sampler=given.sampler,
            trials=given.trials,
            jobs=8,
        )
        handle, _ = open_study(store, space, options, worker.facts)
        context = RunContext(
            options=options,
            observer=clock,
            worker=worker,
            space=space,
            searched=space,
            handle=handle,
            budget=Budget(None, time.monotonic()),
            interrupt=Interrupt(),
            canary=Canary(worker, clock),
        )
        with open_run(context, None) as run:
            run.to_the_end()
    steps = [1e3 * (later - earlier) for earlier, later in zip(clock.times, clock.times[1:], strict=False)]
    last = steps[-min(1000, len(steps)) :]
    print(f"{given.sampler}, {len(space):,} configurations, {len(clock.times):,} trials")
    print(f"all:        median {statistics.median(steps):.2f} ms, mean {statistics.fmean(steps):.2f} ms a trial")
    print(f"last 1,000: median {statistics.median(last):.2f} ms, mean {statistics.fmean(last):.2f} ms a trial")


if __name__ == "__main__":
    main()
