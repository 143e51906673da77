"""The options of a tuning run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.bench.protocol import BenchSpec, Protocol
from tuner.errors import UsageError
from tuner.kernels.subspace import Restriction
from tuner.kernels.template import KernelTemplate
from tuner.problems.accuracy import Precision
from tuner.problems.problem import Problem

DEFAULT_SECONDS = 90.0
AUTO, OFF = "auto", "off"
MOST_JOBS = 8 * (os.cpu_count() or 1)  # compiling processes; all start at once, each with its own Python
MOST_SEED = 2**32 - 1  # largest seed of NumPy's legacy generator, which Optuna's samplers use


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of one run; ``trials`` and ``seconds`` bound this run, not the study.

    Attributes:
        device: A resolved device name.
        trials: Most new evaluations; None: no limit.
        seconds: Most wall-clock seconds of the whole run, including preparation and finals; None: no limit.
        stop_at: Share of the floor at which the search ends; None: never.
        only: The part of the space that this run searches; the study is that of the whole space.
        heuristics: Apply the templates' heuristics; without them it is a different study.
        stop: ``auto`` also ends the search at the floor, or when more of it would gain too little.
        warm_start: ``auto``, ``off``, or the study whose results the search starts from.
        jobs: Compiling processes.
        trial_timeout, compile_timeout: Seconds; None for the defaults.
    """

    problem: Problem
    device: str
    templates: tuple[KernelTemplate, ...]
    storage: str
    sampler: str
    seed: int = 0
    only: Restriction = field(default_factory=Restriction)
    heuristics: bool = True
    trials: int | None = None
    seconds: float | None = None
    stop_at: float | None = None
    stop: str = OFF
    warm_start: str = OFF
    jobs: int = os.cpu_count() or 1
    trial_timeout: float | None = None
    compile_timeout: float | None = None
    data: Path | None = None
    precision: Precision = "fp32"
    protocol: Protocol = field(default_factory=Protocol)

    def __post_init__(self) -> None:
        for name, value in (("--trials", self.trials), ("--time", self.seconds)):
            if value is not None and value <= 0:
                raise UsageError(f"{name} {value:g}: nothing could be measured; give a number above 0")
        if self.jobs <= 0:
            raise UsageError(f"--jobs {self.jobs}: no process would compile; give 1 to {MOST_JOBS}")
        if self.jobs > MOST_JOBS:
            raise UsageError(f"--jobs {self.jobs}: more than eight processes a core; give at most {MOST_JOBS}")
        if not 0 <= self.seed <= MOST_SEED:
            raise UsageError(f"--seed {self.seed}: not a seed of every sampler; give 0 to {MOST_SEED}")
        if self.stop_at is not None and not 0 < self.stop_at <= 1:
            raise UsageError(f"--stop-at {self.stop_at}: not a share of the roofline; give more than 0 and at most 1")
        if self.stop not in (AUTO, OFF):
            raise UsageError(f"--stop '{self.stop}' is unknown; there are: {AUTO}, {OFF}")
        for name, limit in (("--trial-timeout", self.trial_timeout), ("--compile-timeout", self.compile_timeout)):
            if limit is not None and limit <= 0:
                raise UsageError(f"{name} {limit:g}: no trial could end in time; give seconds above 0")

    @property
    def spec(self) -> BenchSpec:
        """What the worker prepares; a raised trial limit also raises the limit of a single launch."""
        longest = max(self.protocol.launch_floor, self.trial_timeout or 0.0)
        protocol = replace(self.protocol, launch_floor=longest)
        return BenchSpec(
            device=self.device, problem=self.problem, precision=self.precision, data=self.data, protocol=protocol
        )
