"""Check one compiled configuration, time it, and check it again: the whole life of a trial on the device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tuner.bench import sizes
from tuner.devices import Device, Kernel
from tuner.errors import Infeasible
from tuner.inputs import Inputs
from tuner.protocol import Heat, Protocol, Task, Verdict
from tuner.results import OK, Costs, Measurement
from tuner.templates import Launch

MIN_TICKS = 100  # a sample spans at least this many ticks of the device's clock
MAX_REPEAT = 1024


class Trial:
    """A loaded configuration on the bench.

    Args:
        inputs: The real inputs; its bench owns y.
        task: What to run.
        reference_seconds: Sets the limit of a launch.

    Raises:
        Infeasible: The launch has no blocks or no threads.
        OutOfResources: The kernel does not fit the device.
    """

    def __init__(self, inputs: Inputs, task: Task, protocol: Protocol, reference_seconds: float) -> None:
        self.inputs, self.bench, self.task, self.protocol = inputs, inputs.bench, task, protocol
        self.device: Device = inputs.bench.device
        check_geometry(task.rendered.launch)
        self.kernel: Kernel = self.device.load(task.binary, task.rendered.entry, task.rendered.launch)
        slowest = max(reference_seconds, task.incumbent or 0.0)
        self.limit = task.launch_limit or max(protocol.launch_floor, protocol.launch_multiple * slowest)
        self.repeat = 1
        self.first = 0.0  # seconds of the launch that was checked
        self._bind(inputs)

    def _bind(self, inputs: Inputs) -> None:
        nbytes = 4 * inputs.layer.M * inputs.layer.reduction
        self.kernel.set_constant_weights(inputs.w, nbytes)

    def launch(self, repeat: int = 1) -> float:
        """Launch on the real inputs and return the seconds of one launch."""
        arguments = (self.inputs.x, self.inputs.w, self.bench.y, *sizes(self.inputs.layer))
        return self._timed(self.task.rendered.launch, arguments, repeat)

    def _timed(self, launch: Launch, arguments: tuple[Any, ...], repeat: int) -> float:
        limit = self.limit * repeat
        return self.device.timed(self.kernel, launch, arguments, limit=limit, repeat=repeat) / repeat

    def check(self) -> float:
        """Run once on a poisoned y and compare every element; return the largest error.

        Raises:
            WrongResult, TimedOut, Crashed: As the configuration deserves.
        """
        self.bench.poison()
        self.first = self.launch()
        return self.inputs.verify()

    def sample(self) -> float:
        """Return one sample in seconds, from cold caches unless the protocol says otherwise."""
        self.bench.cool(self.protocol)
        return self.launch(self.repeat)

    def warm_up(self) -> float:
        """Launch once more, and find how many launches a sample needs to be seen by the device's clock.

        Returns:
            Seconds of the last of these samples.
        """
        target = MIN_TICKS * self.device.timer_resolution
        while (seconds := self.sample()) * self.repeat < target and self.repeat < MAX_REPEAT:
            self.repeat *= 4
        return seconds

    def measure(self, canary: float | None) -> Measurement:
        """Sample until the median is known well enough, the budget is spent, or the trial is clearly slower.

        The output of the last timed launch is checked as the first one was.
        """
        started = time.monotonic()
        warm = self.warm_up()
        hopeless = self._hopeless(warm)
        samples = [warm] if hopeless else []
        while not self._enough(samples, hopeless, time.monotonic() - started):
            samples.append(max(self.sample(), self.device.timer_resolution / self.repeat))
        pruned = self.task.prune and (hopeless or self._clearly_slower(samples))
        self._check_last()
        return Measurement(samples=tuple(samples), pruned=pruned, canary=canary, telemetry=self.device.telemetry())

    def _enough(self, samples: Sequence[float], hopeless: bool, spent: float) -> bool:
        rules, count = self.protocol, len(samples)
        if hopeless:
            return self.task.prune or count > 1
        if count >= rules.max_samples or self._clearly_slower(samples):
            return True
        if count >= rules.few and spent > rules.seconds:
            return True
        return count >= rules.min_samples and Measurement(samples=tuple(samples)).spread <= rules.precision

    def _clearly_slower(self, samples: Sequence[float]) -> bool:
        if not self.task.prune or self.task.incumbent is None or len(samples) < self.protocol.few:
            return False
        return min(samples) > self.protocol.clearly * self.task.incumbent

    def _hopeless(self, warm: float) -> bool:
        """Say whether two launches took so many times the best so far that more of them would tell nothing."""
        return self.task.incumbent is not None and min(self.first, warm) > self.protocol.hopeless * self.task.incumbent

    def _check_last(self) -> None:
        """Check what the last timed launch left in y; with a warm L2 y was not poisoned before it, so launch again."""
        if self.protocol.warm_l2:
            self.bench.poison()
            self.launch()
        self.inputs.verify()

    def confirm(self, second: Inputs) -> None:
        """Check on other inputs, other weights and ragged batches.

        Raises:
            WrongResult: The configuration is right only for the inputs it was tuned on.
        """
        self._bind(second)
        try:
            for batch, launch in self.task.confirm:
                layer = second.layer.with_batch(batch)
                self.bench.poison()
                self._timed(launch, (second.x, second.w, self.bench.y, *sizes(layer)), 1)
                second.verify(batch)
        finally:
            self._bind(self.inputs)


def check_geometry(launch: Launch) -> None:
    """Refuse a launch without blocks or threads: some drivers take it for done.

    Raises:
        Infeasible: Names the launch.
    """
    if min(*launch.grid, *launch.block) < 1:
        raise Infeasible(f"the launch is empty: grid {launch.grid}, block {launch.block}; each needs at least 1")


def evaluate(trial: Trial, second: Inputs, canary: float | None) -> Verdict:
    """Check, measure, and confirm a trial that beats the incumbent.

    Raises:
        Rejected: As the configuration deserves; the caller turns it into a verdict.
    """
    started = time.monotonic()
    error = trial.check()
    checked = time.monotonic()
    measurement = trial.measure(canary)
    measured = time.monotonic()
    best = trial.task.incumbent is None or measurement.median < trial.task.incumbent
    confirmed = best and bool(trial.task.confirm) and not measurement.pruned
    if confirmed:
        trial.confirm(second)
    costs = Costs(check=checked - started + time.monotonic() - measured, measure=measured - checked)
    return Verdict(
        outcome=OK,
        measurement=measurement,
        resources=trial.kernel.resources,
        costs=costs,
        max_error=error,
        confirmed=confirmed,
    )


def interleave(trials: Sequence[Trial], heat: Heat, begun: float) -> list[tuple[float, ...]]:
    """Time several configurations in turn, starting each round with another one; return each one's samples.

    Args:
        trials: Checked configurations.
        begun: When the heat's limit began to count, by ``time.monotonic``.
    """
    started = time.monotonic()
    samples: list[list[float]] = [[] for _ in trials]
    for trial in trials:
        trial.warm_up()
    for start in range(heat.most):
        now = time.monotonic()
        if (start >= heat.fewest and now - started > heat.seconds) or (start >= heat.few and now - begun > heat.limit):
            break
        for step in range(len(trials)):
            which = (start + step) % len(trials)
            samples[which].append(max(trials[which].sample(), 1e-9))
    return [tuple(each) for each in samples]
