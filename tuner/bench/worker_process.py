"""What runs in a worker process: the device, the bench and the inputs it keeps, and the tasks done with them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuner.bench.protocol import BenchFacts, BenchSpec, Heat, Task, Verdict
from tuner.errors import Crashed, DeviceError, Rejected, StrayWrite, TimedOut, Unforeseen, WrongResult
from tuner.problems.problem import Problem
from tuner.processes import stages
from tuner.processes.messages import ours
from tuner.results import Environment, Evaluation, Telemetry

if TYPE_CHECKING:
    from tuner.bench.trial import Trial
    from tuner.problems.whole import Agreement

CANARY_FLOP, HOST_CANARY_FLOP = 40e6, 2e6  # of the canary, by core of a device and of this machine: about 2 ms
HEALTH_SAMPLES = 9
PEAK_MARGIN = 1.2  # by which the memory may be faster than it was measured to be


class WorkerState:
    """Everything a worker keeps between tasks."""

    def __init__(self, spec: BenchSpec) -> None:
        from tuner.bench.bench import Bench
        from tuner.bench.input_sets import RandomInputs, own_inputs
        from tuner.devices import open_device

        self.spec = spec
        stages.enter(stages.OPENING)
        self.device = open_device(spec.device)
        self.bench = Bench(self.device, spec.problem)
        self.inputs = own_inputs(self.bench, spec)
        stages.enter("second inputs and weights")
        self.second = RandomInputs(self.bench, spec)
        stages.enter("timing the reference")
        seconds = statistics.median(self._reference_times(spec.problem, samples=3))
        self.canary = spec.problem.with_rows(self._canary_rows())
        self.facts = BenchFacts(
            environment=self.device.environment,
            limits=replace(self.device.limits, precision=spec.precision),
            shares_host=self.device.shares_host,
            reference_seconds=seconds,
            tolerance=self.inputs.tolerance,
            data_digest=self.inputs.digest,
            unit=self.inputs.unit,
        )

    def _canary_rows(self) -> int:
        """Return as many rows whenever a problem is run on a device, however fast it is just then."""
        flop = self.device.cores * (HOST_CANARY_FLOP if self.device.shares_host else CANARY_FLOP)
        problem = self.spec.problem
        return max(1, min(problem.rows, round(flop * problem.rows / problem.flop)))

    def canaries(self, samples: int) -> tuple[float, ...]:
        """Time the reference kernel on a few rows."""
        return self._reference_times(self.canary, samples)

    def _reference_times(self, problem: Problem, samples: int) -> tuple[float, ...]:
        return self.bench.time_reference(problem, self.inputs.stock, samples=samples)

    @property
    def least_seconds(self) -> float:
        """Return the time in which no kernel moves all rows: what the last-level cache can neither keep nor take."""
        peak, device = self.facts.environment.peak_bytes, self.device
        moved = self.spec.problem.moving_bytes - 2 * device.cache_bytes
        cold = not self.spec.protocol.warm_l2 and not device.shares_host
        return max(0.0, moved / (PEAK_MARGIN * peak)) if cold and peak else 0.0

    def trial(self, task: Task) -> Trial:
        """Load a compiled configuration on the bench.

        Raises:
            Infeasible, OutOfResources: It has no launch, or does not fit the device.
        """
        from tuner.bench.trial import Trial

        return Trial(self.inputs, task, self.spec.protocol, self.facts.reference_seconds)

    def audit(self) -> None:
        """Look at all that no kernel may touch; to be done after each, so that what was judged before it stands.

        Raises:
            WrongResult: Something was written to; this process must be replaced.
        """
        self.inputs.audit()
        self.second.audit()


_state: WorkerState | None = None


def prepared(spec: BenchSpec) -> WorkerState:
    """Return this process's workshop for ``spec``, made now if it is not there."""
    global _state  # noqa: PLW0603  (one device, one bench, one process)
    if _state is None or _state.spec != spec:
        _state = WorkerState(spec)
    return _state


def facts(spec: BenchSpec) -> BenchFacts:
    from tuner.bench.ceilings import with_ceilings

    state = prepared(spec)
    stages.enter("the device's ceilings: memory and arithmetic peaks")
    state.facts = replace(state.facts, environment=with_ceilings(state.bench, state.device.environment))
    return state.facts


def ceilings(spec: BenchSpec) -> Environment:
    """Return the device with its ceilings, measured again where they may have been disturbed."""
    from tuner.bench.ceilings import with_ceilings

    state = prepared(spec)
    return with_ceilings(state.bench, state.device.environment)


def compile_text(spec: BenchSpec, text: str) -> bytes:
    """Compile a whole text as it stands, without a cache."""
    from tuner.devices import compile_text

    return compile_text(prepared(spec).device.environment, text)


def health(spec: BenchSpec) -> tuple[float, ...]:
    return prepared(spec).canaries(samples=HEALTH_SAMPLES)


def telemetry(spec: BenchSpec) -> Telemetry:
    return prepared(spec).device.telemetry()


def evaluate(spec: BenchSpec, task: Task) -> Verdict:
    from tuner.bench.order import check_other_order
    from tuner.bench.trial import evaluate

    state, started = prepared(spec), time.monotonic()
    try:
        trial = state.trial(task)
        canary = state.canaries(samples=1)[0]
        verdict = Verdict(evaluation=evaluate(trial, state.second, canary, state.least_seconds))
        if task.launches:
            check_other_order(trial)
        state.audit()
    except Exception as error:  # a driver has errors of its own
        verdict = verdict_of(state, error)
    return replace(verdict, seconds=time.monotonic() - started)


def verdict_of(state: WorkerState, error: Exception) -> Verdict:
    """Return the verdict on a configuration that failed, and whether this process is lost with it."""
    failed = ours(error)
    if isinstance(failed, Rejected):
        return Verdict(evaluation=Evaluation.rejected(failed), lost=_lost(state, failed))
    trace = f"\n{failed.trace}" if isinstance(failed, Unforeseen) and failed.trace else ""
    return Verdict(evaluation=Evaluation(outcome=Crashed.outcome, text=f"{failed}{trace}"), lost=True)


def finals(spec: BenchSpec, tasks: Sequence[Task], heat: Heat) -> list[tuple[float, ...] | Verdict]:
    """Confirm each task on the second inputs, then time the sound ones interleaved.

    One that does harm ends it for all, since this process is lost: the others are to be held again in another.

    Returns:
        Samples in seconds, by task; none where the heat's limit came first, a verdict where it failed.
    """
    from tuner.bench.order import check_other_order
    from tuner.bench.rounds import Spoilt, interleave

    state, begun = prepared(spec), time.monotonic()
    ends: list[Any] = []
    sound: list[tuple[int, Trial]] = []
    for number, task in enumerate(tasks):
        if sound and time.monotonic() - begun > heat.limit:
            ends.append(())
            continue
        try:
            trial = state.trial(task)
            trial.check()
            check_other_order(trial)
            real = trial.warm_up()  # first, so that both samples are of as many launches
            trial.depends_on_data(state.second, real, 0.0, trial.confirm(state.second))
            state.audit()
        except Exception as error:
            ends.append(verdict_of(state, error))
            if ends[-1].lost:
                return [*ends, *((),) * (len(tasks) - len(ends))]
            continue
        ends.append(())
        sound.append((number, trial))
    try:
        timed = interleave([trial for _, trial in sound], heat, begun, state.audit)
    except Spoilt as spoilt:
        ends[sound[spoilt.which][0]] = replace(verdict_of(state, spoilt.error), lost=True)
        return ends
    for (number, _), samples in zip(sound, timed, strict=True):
        ends[number] = samples
    return ends


def agreement(spec: BenchSpec, task: Task) -> Agreement:
    from tuner.bench.outputs import TrialOutputs

    return spec.problem.agreement(TrialOutputs(prepared(spec).trial(task)), spec.data)


def _lost(state: WorkerState, error: Rejected) -> bool:
    """Whether this process can still be trusted: a busy or faulted device and damaged inputs cannot be mended."""
    if isinstance(error, TimedOut | Crashed | StrayWrite):
        return True
    try:
        state.audit()
    except (WrongResult, DeviceError):
        return True
    return False
