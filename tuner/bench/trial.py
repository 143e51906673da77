"""Check one compiled configuration, time it, and check it again: the whole life of a trial on the device."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tuner.bench.checks import Checks, check_geometry, check_static_memory
from tuner.bench.input_sets import RandomInputs
from tuner.bench.inputs import Inputs
from tuner.bench.protocol import Protocol, Task
from tuner.bench.turns import Turn
from tuner.devices import Device, Kernel
from tuner.errors import WrongResult
from tuner.kernels.launch import Launch
from tuner.results import OK, Costs, Evaluation, Measurement

MIN_TICKS = 100  # a sample spans at least this many ticks of the device's clock
MAX_REPEAT = 1024
AMONG = 0.1  # of the launches of one sample, where it takes many
LAUNCH_SECONDS, MOST_LAUNCHES = 1.0, 1000  # beyond those of a measurement, where a task asks for more
AGAIN = 2  # samples on whole batches of other numbers, after the first
DATA_NOISE = 0.1  # beyond it a kernel's time depends on the data
PAIRS = 5  # of samples on either data, each of which must say so


class Trial:
    """A loaded configuration on the bench.

    Args:
        inputs: The real inputs; its bench owns y.
        task: What to run.
        reference_seconds: Sets the limit of a launch.

    Raises:
        Infeasible: The launch has no blocks or no threads, or the kernel has static memory that it does not declare.
        OutOfResources: The kernel does not fit the device.
    """

    def __init__(self, inputs: Inputs, task: Task, protocol: Protocol, reference_seconds: float) -> None:
        self.inputs, self.bench, self.task, self.protocol = inputs, inputs.bench, task, protocol
        self.device: Device = inputs.bench.device
        check_geometry(task.rendered.launch)
        check_static_memory(task)
        self.kernel: Kernel = self.device.load(task.binary, task.rendered.entry, task.rendered.launch)
        slowest = max(reference_seconds, task.incumbent or 0.0)
        self.limit = task.launch_limit or max(protocol.launch_floor, protocol.launch_multiple * slowest)
        self.repeat = 1
        self.first = 0.0  # seconds of the launch that was checked
        self.counts_on: RandomInputs | None = None  # numbers that make it slower than the real ones do
        self._placed = inputs
        self._random = secrets.SystemRandom()

    def place(self, inputs: Inputs, turn: Turn, rows: int | None = None) -> tuple[Any, ...]:
        """Put other contents where the kernel reads, poison the output and what a kernel may find lying about.

        Returns:
            The kernel's arguments.
        """
        inputs.place(turn, rows)
        for tensor in inputs.placed.inputs:
            if tensor.constant:
                self.kernel.set_constant(tensor.name, self.bench.guarded[tensor.name].inner, tensor.nbytes)
        self.bench.scour(self.kernel.resources.shared_bytes or 0)
        self._placed = inputs
        return self.bench.arguments(inputs.placed)

    def _timed(self, launch: Launch, arguments: tuple[Any, ...]) -> float:
        return self.device.timed(self.kernel, launch, arguments, limit=self.limit, repeat=1)

    def verify(self) -> float:
        """Check what the last launch left; return the largest error.

        Raises:
            WrongResult: The output is wrong, or something else was written.
        """
        return self._placed.verify()

    def check(self, turn: Turn | None = None) -> float:
        """Run once on the real inputs and compare every element; return the largest error.

        Args:
            turn: How the inputs are turned; a random one if None.

        Raises:
            WrongResult: The output is wrong, or something else was written.
            TimedOut, Crashed: The launch did not end, or the device faulted.
        """
        arguments = self.place(self.inputs, turn or self.inputs.drawn())
        self.first = self._timed(self.task.rendered.launch, arguments)
        return self.verify()

    def sample(self, inputs: Inputs | None = None) -> float:
        """Return one sample in seconds: the mean of launches, each on other contents and a y poisoned anew.

        Args:
            inputs: The set to launch on; the real one if None.
        """
        used, total, launch = inputs or self.inputs, 0.0, self.task.rendered.launch
        for again in range(self.repeat):
            if again and self._random.random() < AMONG:
                used.verify()
            arguments = self.place(used, used.drawn(self.task.rendered.magnitudes if inputs else None))
            if self.protocol.warm_l2:
                self._timed(launch, arguments)
                used.poison()
            self.bench.flush(self.protocol)
            total += self._timed(launch, arguments)
        return total / self.repeat

    def checked_sample(self, inputs: Inputs | None = None) -> float:
        """Return one sample in seconds, as :meth:`sample` does, and check what its last launch left.

        Raises:
            WrongResult: The output is wrong, or something else was written.
        """
        seconds = self.sample(inputs)
        self.verify()
        return seconds

    def warm_up(self) -> float:
        """Launch once more, and find how many launches a sample needs to be seen by the device's clock.

        Returns:
            Seconds of the last of these samples.
        """
        target = MIN_TICKS * self.device.timer_resolution
        while (seconds := self.checked_sample()) * self.repeat < target and self.repeat < MAX_REPEAT:
            self.repeat *= 4
        return seconds

    def measure(self, canary: float | None) -> Measurement:
        """Sample until the median is known well enough, the budget is spent, or the trial is clearly slower.

        What a random share of the timed launches left is checked as the first launch's output was, and what one of the
        last two left always; nothing that a kernel can see tells which.
        """
        started = time.monotonic()
        warm = self.warm_up()
        hopeless = self._hopeless(warm)
        samples = [warm] if hopeless else []
        checks = Checks(self.protocol.min_samples)
        while not self._enough(samples, hopeless, time.monotonic() - started):
            samples.append(max(self.sample(), self.device.timer_resolution / self.repeat))
            if checks.next():
                self.verify()
        pruned = self.task.prune and (hopeless or self._clearly_slower(samples))
        if checks.owed:
            self.verify()
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

    def fresh_sample(self, second: RandomInputs) -> float:
        """Return one checked sample on numbers that no launch has seen."""
        second.renew()
        return self.checked_sample(second)

    def counted_sample(self) -> float:
        """Return one checked sample of the time that counts: on numbers never seen, where these make it slower."""
        if self.counts_on is not None:
            return self.fresh_sample(self.counts_on)
        return self.checked_sample()

    def confirm(self, second: RandomInputs) -> float:
        """Check on other inputs, other weights and ragged batches; return seconds of a whole batch never seen before.

        Raises:
            WrongResult: The configuration is right only for the inputs it was tuned on.
        """
        fresh = self.fresh_sample(second)
        for rows, launch in self.task.confirm:
            arguments = self.place(second, second.drawn(self.task.rendered.magnitudes), rows)
            with self.device.read_only([self.bench.guarded[tensor.name].whole for tensor in second.placed.inputs]):
                self._timed(launch, arguments)
            self.verify()
        for _ in range(AGAIN):
            self.checked_sample(second)
        return fresh

    def depends_on_data(
        self, second: RandomInputs, real: float, spread: float, fresh: float
    ) -> tuple[tuple[float, float], ...]:
        """Say whether it is slower on numbers never seen than on the real inputs, by more than the noise allows.

        What looks so is measured again, in turn with the real inputs, since a busy device is slower now and then.

        Args:
            real: Seconds on the real inputs, and ``spread``, relative to it.
            fresh: Seconds on others.

        Returns:
            Samples in pairs, on the real inputs and on such numbers, which count from now on; none if it is not.
        """
        allowed = 1 + max(DATA_NOISE, 3 * spread)
        pairs: list[tuple[float, float]] = []
        while fresh > real * allowed:
            if len(pairs) == PAIRS:
                self.counts_on = second
                return tuple(pairs)
            real, fresh = self.sample(), self.fresh_sample(second)
            pairs.append((real, fresh))
        return ()

    def launch_more(self) -> None:
        """Make the task's further launches, each of them checked, and more while there is time for them.

        Raises:
            WrongResult: One of them was wrong.
        """
        launches, ends = self.task.launches, time.monotonic() + LAUNCH_SECONDS
        for made in range(max(launches, MOST_LAUNCHES) if launches else 0):
            if made >= launches and time.monotonic() >= ends:
                return
            self.checked_sample()

    def is_best(self, measurement: Measurement) -> bool:
        """Whether a time makes the configuration the best so far."""
        incumbent = self.task.incumbent
        return not measurement.pruned and (incumbent is None or measurement.median < incumbent)


def evaluate(trial: Trial, second: RandomInputs, canary: float | None, least: float = 0.0) -> Evaluation:
    """Check, measure, and confirm a trial that beats the incumbent.

    Args:
        least: Seconds in which the device cannot even move x and y: no honest time is below.

    Raises:
        Rejected: What is wrong with the configuration; the caller turns it into a verdict.
    """
    started = time.monotonic()
    error = trial.check()
    checked = time.monotonic()
    measurement = trial.measure(canary)
    measured = time.monotonic()
    if measurement.median < least:
        raise WrongResult(
            f"its time of {measurement.median * 1e3:.4g} ms is impossible: moving x and y alone takes this device "
            f"{least * 1e3:.4g} ms"
        )
    trial.launch_more()
    text, confirmed = "", False
    if trial.is_best(measurement) and (trial.task.confirm or trial.task.launches):
        fresh = trial.confirm(second)
        if pairs := trial.depends_on_data(second, measurement.median, measurement.spread, fresh):
            real, slower = zip(*pairs, strict=True)
            measurement = replace(measurement, samples=slower)
            text = (
                f"its time depends on the data: {statistics.median(real) * 1e3:.4g} ms on the real inputs, "
                f"{measurement.median * 1e3:.4g} ms on random numbers, which counts"
            )
        confirmed = trial.is_best(measurement)
    costs = Costs(check=checked - started + time.monotonic() - measured, measure=measured - checked)
    return Evaluation(
        outcome=OK,
        text=text,
        measurement=measurement,
        resources=trial.kernel.resources,
        costs=costs,
        max_error=error,
        confirmed=confirmed,
    )
