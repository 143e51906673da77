"""The tuner's own cost a trial - ask, claim, mark, tell, store - with everything else taken away.

    python tests/benchmark_overhead.py --trials 10000 --sampler surrogate

A stand-in device answers at once, so what is left of a run's time is the tuner's; the store is a real file.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from concurrent.futures import Future

from test_templates import CUDA_LIMITS

from tuner.compiler import Compiled
from tuner.layers import find_layer
from tuner.loading import builtin_templates
from tuner.protocol import BenchFacts, Verdict
from tuner.results import Environment, Measurement, Resources
from tuner.space import enumerate_space
from tuner.storage import Store
from tuner.tuning import RunOptions, pipeline
from tuner.tuning.run import Run
from tuner.tuning.session import open_study

MACHINE = Environment(device="cuda:0", kind="cuda", model="stand-in", driver="1", toolkit="1", arch="none")


class InstantWorker:
    """A worker whose every configuration is right and takes a random time."""

    restarts = 0

    def __init__(self) -> None:
        self.facts = BenchFacts(
            environment=MACHINE,
            limits=CUDA_LIMITS,
            shares_host=False,
            reference_seconds=1.0,
            tolerance=1.0,
            data_digest="",
        )
        self._chance = random.Random(0)

    def health(self) -> tuple[float, ...]:
        return (1.0,)

    def start(self, task):
        return None

    def finish(self, future) -> Verdict:
        median = self._chance.lognormvariate(-6, 1)
        samples = tuple(median * self._chance.gauss(1, 0.01) for _ in range(10))
        resources = Resources(registers=self._chance.randrange(32, 256), shared_bytes=0, local_bytes=0)
        return Verdict(outcome="ok", measurement=Measurement(samples=samples), resources=resources)

    def finals(self, tasks, rounds, seconds):
        return []


class InstantCompiler:
    def __init__(self, *_: object) -> None:
        self._done: Future[Compiled] = Future()
        self._done.set_result(Compiled(binary=b"", seconds=0.0))

    def submit(self, source: str) -> Future[Compiled]:
        return self._done

    def result(self, future: Future[Compiled]) -> Compiled:
        return future.result()

    def close(self) -> None:
        return


class Clock:
    """Notes when each trial ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def says(self, line: str) -> None:
        return

    def trial(self, result, progress) -> None:
        self.times.append(time.perf_counter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--sampler", default="random")
    given = parser.parse_args()
    layer = find_layer("conv2")
    space = enumerate_space(tuple(builtin_templates().values()), layer, CUDA_LIMITS)
    pipeline.Compiler = InstantCompiler  # type: ignore[misc, assignment]
    clock, worker = Clock(), InstantWorker()
    with tempfile.TemporaryDirectory() as folder, Store.open(f"{folder}/t.db") as store:
        options = RunOptions(
            layer=layer,
            device="cuda:0",
            templates=tuple(part.template for part in space.parts),
            storage=f"{folder}/t.db",
            sampler=given.sampler,
            trials=given.trials,
            jobs=8,
        )
        handle, _ = open_study(store, space, options, worker.facts)
        run = Run(options, clock, worker, space, handle)
        run.begin(None)
        run.to_the_end(time.monotonic())
    steps = [1e3 * (later - earlier) for earlier, later in zip(clock.times, clock.times[1:], strict=False)]
    last = steps[-min(1000, len(steps)) :]
    print(f"{given.sampler}, {len(space):,} configurations, {len(clock.times):,} trials")
    print(f"all:        median {statistics.median(steps):.2f} ms, mean {statistics.fmean(steps):.2f} ms a trial")
    print(f"last 1,000: median {statistics.median(last):.2f} ms, mean {statistics.fmean(last):.2f} ms a trial")


if __name__ == "__main__":
    main()
