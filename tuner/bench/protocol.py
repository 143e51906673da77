"""How a configuration is timed, and what travels to the worker and back: small, picklable, complete."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from tuner.kernels.configuration import Configuration
from tuner.kernels.launch import Launch
from tuner.kernels.limits import DeviceLimits
from tuner.kernels.render import Rendered
from tuner.kernels.template import KernelTemplate
from tuner.problems.accuracy import Precision
from tuner.problems.problem import Problem
from tuner.results import Environment, Evaluation

VERSION = 3  # part of every fingerprint: raise it whenever a change here makes old and new samples incomparable


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The rules of a measurement.

    Attributes:
        warm_l2: Leave the last-level cache as the previous launch left it; otherwise it is flushed before each launch.
        precision: Half the 95% interval of the median, relative to it, at which sampling stops.
        min_samples, max_samples: Bounds on the timed launches of a trial.
        seconds: Sampling of one trial ends after this long, once there are ``few`` samples.
        few: Samples after which a clearly slower trial stops.
        clearly: A trial whose fastest sample is this many times the best so far is clearly slower.
        hopeless: One whose first two launches are this many times the best is not sampled again (a baseline: once).
        launch_floor: No launch is given up before this many seconds.
        launch_multiple: Beyond that, a launch may take this many times the reference kernel's time.
    """

    warm_l2: bool = False
    precision: float = 0.01
    min_samples: int = 7
    max_samples: int = 60
    seconds: float = 0.12
    few: int = 3
    clearly: float = 1.2
    hopeless: float = 5.0
    launch_floor: float = 2.0
    launch_multiple: float = 10.0

    @property
    def version(self) -> str:
        """Name of the protocol for fingerprints and studies."""
        return f"{VERSION}{'-warm' if self.warm_l2 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSpec:
    """What a worker needs to open its device and prepare its inputs; equal specs prepare equal benches."""

    device: str
    problem: Problem
    precision: Precision = "fp32"
    data: Path | None = None
    protocol: Protocol = field(default_factory=Protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFacts:
    """What a prepared bench says of itself.

    Attributes:
        reference_seconds: Median of the plain reference kernel.
        tolerance: Largest absolute error a correct kernel may have on these inputs.
        data_digest: Hash of what the inputs came from; part of each fingerprint.
        unit: The largest error of a plain FP32 kernel on the same inputs.
    """

    environment: Environment
    limits: DeviceLimits
    shares_host: bool
    reference_seconds: float
    tolerance: float
    data_digest: str
    unit: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One configuration, compiled and ready to run.

    Attributes:
        incumbent: Seconds of the best configuration so far; None while there is none.
        prune: Whether the trial may stop early when clearly slower (baselines may not).
        confirm: Numbers of rows and launches to check on second inputs should it beat the incumbent.
        launch_limit: Seconds a launch may take; None for the protocol's rule.
        launches: As many more, each of them checked; and as many again as there is time for.
    """

    binary: bytes
    rendered: Rendered
    incumbent: float | None = None
    prune: bool = True
    confirm: tuple[tuple[int, Launch], ...] = ()
    launch_limit: float | None = None
    launches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """How long finalists are measured in turn.

    Attributes:
        fewest, most: Rounds, in each of which every one is sampled once.
        seconds: No round begins after this long, once there are the fewest.
        limit: Seconds after which no check and no round begins, once there are ``few`` rounds.
        few: As many tell something.
    """

    fewest: int = 7
    most: int = 30
    seconds: float = 2.5
    limit: float = math.inf
    few: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What evaluating a task gave, and what that did to the worker.

    Attributes:
        seconds: In the worker, from loading to the end; 0 when it died.
        lost: The worker cannot be used again (device fault, busy device) and must be replaced.
        killed: A process was killed from outside, so that this says nothing of the configuration.
    """

    evaluation: Evaluation
    seconds: float = 0.0
    lost: bool = False
    killed: bool = False

    @property
    def outcome(self) -> str:
        return self.evaluation.outcome


GROUP = 4  # of rows, each of whose rests is tried
PRIMES = tuple(n for n in range(2, 1100) if all(n % divisor for divisor in range(2, int(n**0.5) + 1)))


def ragged_rows(rows: int) -> tuple[int, ...]:
    """Return numbers of rows for the second check, drawn anew: a prime, any other, few of each rest by four, and one.

    Few are cheap, and what takes rows in groups errs where it does not fill one.
    """
    primes = [prime for prime in PRIMES if prime < rows]
    drawn = [secrets.choice(primes[len(primes) // 2 :])] if primes else []
    if rows > 2:
        drawn.append(2 + secrets.randbelow(min(rows, PRIMES[-1]) - 2))
    few = (rest + GROUP * secrets.randbelow(GROUP + 1) for rest in range(GROUP))
    return (*drawn, *(each for each in few if 1 < each < rows), 1)


def confirmations(
    template: KernelTemplate, configuration: Configuration, problem: Problem
) -> tuple[tuple[int, Launch], ...]:
    """Return the numbers of rows that a would-be best must be right for too, each with its launch."""
    return tuple(
        (rows, template.launch_of(configuration, problem.with_rows(rows))) for rows in ragged_rows(problem.rows)
    )
