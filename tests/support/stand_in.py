"""A compiler and a device that answer at once and by rule: for the tuner's own cost, and to leave nothing to chance."""

from __future__ import annotations

import random
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from templates import CUDA_LIMITS

from tuner.bench.protocol import BenchFacts, Heat, Task, Verdict
from tuner.devices.compiler import Compiled
from tuner.results import Environment, Evaluation, Measurement, Resources, Telemetry

MACHINE = Environment(device="cuda:0", kind="cuda", model="stand-in", driver="1", toolkit="1", arch="none")


class InstantCompiler:
    def __init__(self, *_: object) -> None:
        self._done: Future[Compiled] = Future()
        self._done.set_result(Compiled(binary=b"", seconds=0.0))

    def submit(self, source: str) -> Future[Compiled]:
        return self._done

    def result(self, future: Future[Compiled]) -> Compiled:
        return future.result()

    def abandon(self) -> None:
        return

    def close(self) -> None:
        return


class InstantWorker:
    """A worker whose every configuration is right; :meth:`seconds_of` says how long it takes, else chance does."""

    restarts = 0

    def __init__(self, seed: int = 0) -> None:
        self.facts = BenchFacts(
            environment=MACHINE,
            limits=CUDA_LIMITS,
            shares_host=False,
            reference_seconds=1.0,
            tolerance=1.0,
            data_digest="",
        )
        self.chance = random.Random(seed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        return

    def seconds_of(self, source: str) -> float:
        return self.chance.lognormvariate(-6, 1)

    def health(self) -> tuple[float, ...]:
        return (1.0,)

    def start(self, task: Task, *_: Any) -> Task:
        return task

    def finish(self, task: Task) -> Verdict:
        median = self.seconds_of(task.rendered.source)
        samples = tuple(median * self.chance.gauss(1, 0.01) for _ in range(10))
        resources = Resources(registers=self.chance.randrange(32, 256), shared_bytes=0, local_bytes=0)
        timed = Evaluation(outcome="ok", measurement=Measurement(samples=samples), resources=resources)
        return Verdict(evaluation=timed)

    def limit_of(self, task: Task) -> float:
        return 1e9

    def finals(self, tasks: list[Task], heat: Heat, unless: object = False) -> list[tuple[float, ...]]:
        return []

    def telemetry(self) -> Telemetry:
        return Telemetry()

    def agreement(self, task: Task) -> None:
        return None
