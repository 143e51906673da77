"""The results of a trial: outcome, samples, resources and costs. Plain data, shared by everything above."""

from __future__ import annotations

import hashlib
import statistics
from dataclasses import dataclass, field
from typing import Self

from tuner.errors import Rejected
from tuner.kernels.configuration import Configuration
from tuner.problems.registry import kind_of

OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The device's state around a measurement, where it can be read (NVML); None where it cannot.

    Units:
        MHz, degrees Celsius, watts; ``throttle`` lists reasons, empty for none.
    """

    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Timed launches of one configuration, in seconds, in the order they were taken.

    Attributes:
        samples: Every timed launch; nothing is discarded.
        pruned: True when sampling stopped early because the trial was clearly slower than the best so far.
        canary: Seconds of the reference kernel timed beside this trial, to compare across drifts; None if not timed.
    """

    samples: tuple[float, ...]
    pruned: bool = False
    canary: float | None = None
    telemetry: Telemetry = field(default_factory=Telemetry)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def ratio(self) -> float | None:
        """Times of the canary: what to compare where the device's speed has changed."""
        return self.median / self.canary if self.canary else None

    @property
    def interval(self) -> tuple[float, float]:
        """95% confidence interval of the median, from order statistics (Conover, Practical Nonparametric Statistics).

        With fewer than six samples no pair of order statistics reaches 95%: the whole range is returned.
        """
        ordered = sorted(self.samples)
        n = len(ordered)
        reach = 0.98 * n**0.5  # 1.96 * sqrt(n) / 2 ranks on either side of the middle
        low = max(0, int((n - 1) / 2 - reach))
        high = min(n - 1, round((n - 1) / 2 + reach + 0.5))
        return ordered[low], ordered[high]

    @property
    def spread(self) -> float:
        """Half the confidence interval relative to the median: 0.01 is plus or minus 1%."""
        low, high = self.interval
        return (high - low) / 2 / self.median

    @property
    def spread_text(self) -> str:
        """The spread in percent; beyond 100% of the median the figure is meaningless."""
        return f"{self.spread:.1%}" if self.spread <= 1 else "> 100%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the compiled kernel uses per thread (registers, local bytes) and per block (shared bytes).

    Attributes:
        local_bytes: Of a thread's stack in device memory: spilled registers, and arrays that could not be kept in some.
        spill_bytes: Stores of spilled registers in a thread's code, by ptxas; None where it did not say.
        occupancy: Share of a multiprocessor's warp slots used by its resident blocks; None except on CUDA.
    """

    registers: int | None = None
    local_bytes: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    spill_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Where a trial's time went, in seconds."""

    compile: float = 0.0
    check: float = 0.0
    measure: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The result of evaluating one configuration, in any command.

    Attributes:
        outcome: One of ``tuner.errors.OUTCOMES``.
        text: The failure's full text (compiler log, CUDA error, first wrong element); a remark, or empty, for ``ok``.
        max_error: Largest absolute error against the reference; None when the check was not reached.
        confirmed: True once it also passed on second inputs and a ragged batch; only such a result is exported.
    """

    outcome: str
    text: str = ""
    measurement: Measurement | None = None
    resources: Resources = field(default_factory=Resources)
    costs: Costs = field(default_factory=Costs)
    max_error: float | None = None
    confirmed: bool = False

    @property
    def ok(self) -> bool:
        return self.outcome == OK and self.measurement is not None

    @classmethod
    def rejected(cls, error: Rejected) -> Self:
        """Return the outcome of a configuration that did not become a measurement."""
        return cls(outcome=error.outcome, text=error.whole)

    @property
    def message(self) -> str:
        """The first line of the text."""
        return self.text.splitlines()[0] if self.text else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of one trial: a configuration's evaluation, and its place in a study.

    The evaluation's attributes can be read here too.

    Attributes:
        fingerprint: Key of everything that could change this result; equal fingerprints may share a measurement.
        baseline: Name of the baseline this configuration is, or empty.
        reused: True when the measurement was taken over from an earlier study with the same fingerprint.
        settled: When its pass of the finals began, in seconds since the epoch; 0 for a result of the search. Only a
            result that is confirmed and settled may win.
        searched: For a result of the finals, the seconds that the search had measured.
        started: Seconds since the epoch.
    """

    configuration: Configuration
    fingerprint: str
    evaluation: Evaluation
    baseline: str = ""
    reused: bool = False
    settled: float = 0.0
    searched: float | None = None
    started: float = 0.0

    @property
    def outcome(self) -> str:
        return self.evaluation.outcome

    @property
    def text(self) -> str:
        return self.evaluation.text

    @property
    def measurement(self) -> Measurement | None:
        return self.evaluation.measurement

    @property
    def resources(self) -> Resources:
        return self.evaluation.resources

    @property
    def costs(self) -> Costs:
        return self.evaluation.costs

    @property
    def max_error(self) -> float | None:
        return self.evaluation.max_error

    @property
    def confirmed(self) -> bool:
        return self.evaluation.confirmed

    @property
    def ok(self) -> bool:
        return self.evaluation.ok

    @property
    def may_win(self) -> bool:
        """Whether it was measured in the finals, in full, and is right on other inputs too."""
        return self.ok and self.confirmed and self.settled > 0 and not (self.measurement and self.measurement.pruned)

    @property
    def seconds(self) -> float:
        """Median seconds of a launch; infinite for a trial that is not ``ok``, so that results sort."""
        return self.measurement.median if self.ok and self.measurement else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Everything outside the source that could change a result; part of each fingerprint.

    Attributes:
        device: The name the user gives: ``cuda:0``, ``cpu``.
        model: What the driver calls it: ``NVIDIA H200``.
        toolkit: Compiler and its version, with the options used.
        peak_flops, peak_bytes: Ceilings for the roofline in FLOP/s (FP32 multiply-adds) and bytes/s; None until known.
        peak_tf32, peak_fp16: The same of tensor cores, by ``mma.sync`` or ``wgmma``; None where there are none.
    """

    device: str
    kind: str
    model: str
    driver: str
    toolkit: str
    arch: str
    host: str = ""
    peak_flops: float | None = None
    peak_bytes: float | None = None
    peak_tf32: float | None = None
    peak_fp16: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyKey:
    """What makes a study the same study: asked for again, it resumes.

    Attributes:
        space_digest: Hash of the templates' parameters and valid combinations.
        protocol: Version of the measurement protocol (with its variants, such as a warm L2).
        sources: The templates if they were chosen: name, and a user's own file. It names a study, and tells how to
            continue it; the files' contents are in the space's hash.
        heuristics: Whether the templates' heuristics narrowed the space.
    """

    problem: str
    shape: tuple[int, ...]  # the problem's sizes, in its kind's order
    device_kind: str
    device_model: str
    precision: str
    protocol: str
    space_digest: str
    templates: tuple[str, ...]
    kind: str = "conv"
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    heuristics: bool = field(default=True, compare=False)

    @property
    def name(self) -> str:
        """Readable, unique name, used in Optuna's table as well: ``sp18/conv2 cpu B50 fp32 3fa9c1``.

        A study of a user's own templates begins with them: ``mine@sp18/conv2 cpu B50 fp32 9c11d2``.
        """
        rows = f"{kind_of(self.kind).ROWS}{self.shape[0]}"
        own = "+".join(name for name, path in self.sources if path)
        return f"{own}{'@' if own else ''}{self.problem} {self.device_kind} {rows} {self.precision} {self.digest[:6]}"

    @property
    def digest(self) -> str:
        parts = (self.problem, self.shape, self.device_kind, self.device_model, self.precision, self.protocol)
        kind = () if self.kind == "conv" else (self.kind,)  # unchanged, so that old studies resume
        return hashlib.sha256(repr((*kind, *parts, self.space_digest, self.templates)).encode()).hexdigest()
