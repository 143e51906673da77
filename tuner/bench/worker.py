"""The keeper, in the main process, of the process that owns a device.

A kernel that hangs, faults or kills its process costs the worker, not the study: the keeper notices, says what
happened, and the pool starts a fresh one that prepares the same bench again.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tuner.bench import worker_process
from tuner.bench.protocol import BenchFacts, BenchSpec, Heat, Task, Verdict
from tuner.devices.compiler import MOST_KILLED
from tuner.devices.linker import linkers_killer
from tuner.errors import Crashed, DeviceError, Killed, OutOfResources, Rejected, TimedOut, TunerError, Unforeseen
from tuner.processes import stages
from tuner.processes.pool import DIED, Processes, killer, stillborn
from tuner.results import Evaluation, Telemetry

if TYPE_CHECKING:
    from tuner.problems.whole import Agreement

T = TypeVar("T")
PREPARE_SECONDS = 180.0
POLL_SECONDS = 0.2  # between looks at Ctrl-C while finals are measured
ONE_ROUND = Heat(fewest=1, most=1)
MARGIN_SECONDS = 20.0  # for loading, comparing and sampling around the launches, which have their own limit


class Worker:
    """Keeper of one device's worker process.

    Nothing a configuration does raises here, only a full disk: :meth:`evaluate` always returns a verdict.

    Args:
        spec: What the worker prepares.
        trial_timeout: Limit of a whole trial in seconds; None for the protocol's rule.
        tell: Told what the worker is busy with while it prepares.
    """

    def __init__(
        self, spec: BenchSpec, trial_timeout: float | None = None, tell: Callable[[str], None] | None = None
    ) -> None:
        self.spec, self.trial_timeout = spec, trial_timeout
        self.restarts = 0
        self._processes = Processes(1, log=True)
        try:
            preparing = self._processes.schedule(worker_process.facts, spec, limit=PREPARE_SECONDS)
            if tell:
                stages.follow(preparing, self._processes.folder, tell)
            self.facts: BenchFacts = preparing.result()
        except DIED as error:
            raise DeviceError(f"device {spec.device}: {self._obituary(error)}".replace("\n", "; ")) from None
        except Unforeseen as error:
            raise DeviceError(f"device {spec.device}: {error}; see tune doctor") from error
        except FutureTimeout:
            raise DeviceError(
                f"device {spec.device}: not ready after {PREPARE_SECONDS:.0f} s; see tune doctor"
            ) from None
        finally:
            if not hasattr(self, "facts"):
                self.close()

    def _call(self, function: Callable[..., T], *arguments: Any, limit: float) -> T:
        return self._processes.schedule(function, *arguments, limit=limit).result()

    def ask(
        self, function: Callable[..., T], *arguments: Any, limit: float = PREPARE_SECONDS, unless: object = False
    ) -> T:
        """Call ``function(spec, *arguments)`` in the worker.

        Args:
            unless: What ends the call, and the process with it, as soon as it is true.

        Raises:
            TunerError: It failed, was ended, took longer than ``limit`` seconds, or the worker died; one line.
        """
        future = self._processes.schedule(function, self.spec, *arguments, limit=limit)
        while not wait([future], timeout=POLL_SECONDS).done:
            if unless:
                self._processes.stop()
                raise TunerError("ended before it was done")
        try:
            return future.result()
        except FutureTimeout:
            raise TimedOut(f"took longer than its limit of {limit:.0f} s") from None
        except DIED as error:
            raise (Killed if self._killer(error) else Crashed)(self._obituary(error).splitlines()[0]) from None

    def start(self, task: Task, most: float = math.inf) -> Future[Verdict]:
        """Begin to check and time one configuration; read it with :meth:`finish`.

        Args:
            most: Seconds it may take where that is less than its limit.
        """
        limit = min(most, self.limit_of(task))
        return self._processes.schedule(worker_process.evaluate, self.spec, task, limit=limit)

    def finish(self, future: Future[Verdict]) -> Verdict:
        """Return the verdict on a started configuration; a fault or time-out of the worker becomes the verdict.

        Raises:
            TunerError: The disk is full: there is no verdict.
        """
        try:
            verdict = future.result()
        except FutureTimeout as error:
            limit = error.args[1]
            late = TimedOut(f"trial took longer than its limit of {limit:.1f} s; raise it with --trial-timeout")
            verdict = Verdict(evaluation=Evaluation.rejected(late))
            self.restarts += 1
        except DIED as error:
            died = Evaluation(outcome=Crashed.outcome, text=self._obituary(error))
            verdict = Verdict(evaluation=died, killed=bool(self._killer(error)))
            self.restarts += 1
        except TunerError as error:  # the bench itself could not be prepared
            failed = Evaluation(outcome=Crashed.outcome, text=str(error))
            verdict = Verdict(evaluation=failed, lost=isinstance(error, Unforeseen))
        if verdict.outcome in (Crashed.outcome, OutOfResources.outcome):
            self._processes.check_room()
        if verdict.lost:
            self.replace()
        return verdict

    def evaluate(self, task: Task) -> Verdict:
        """Check and time one configuration."""
        return self.finish(self.start(task))

    def limit_of(self, task: Task) -> float:
        """Return how many seconds a trial may take."""
        return self.trial_timeout or self._trial_limit(task)

    def _trial_limit(self, task: Task) -> float:
        rules = self.spec.protocol
        launch = task.launch_limit or max(rules.launch_floor, rules.launch_multiple * self.facts.reference_seconds)
        return launch + MARGIN_SECONDS + rules.max_samples * self.facts.reference_seconds

    def _obituary(self, error: BaseException) -> str:
        if why := stillborn(error):
            return why
        if how := self._killer(error):
            return f"the worker{how}"
        code = int(getattr(error, "exitcode", 0) or 0)
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        said = self._processes.said(error)
        return f"the worker died with {name}" + (f"\n{said}" if said else "")

    def _killer(self, error: BaseException) -> str:
        """Return how the process, or a linker that it ran, was killed from outside; else nothing."""
        if how := killer(error):
            return f" {how}"
        how = linkers_killer(self._processes.said(error))
        return f"'s linker {how}" if how else ""

    def replace(self) -> None:
        """Give up the worker process; the next call starts another, which prepares the same bench again."""
        self.restarts += 1
        try:
            self._call(os._exit, 1, limit=10.0)
        except (*DIED, FutureTimeout, TunerError):
            return

    def finals(self, tasks: Sequence[Task], heat: Heat, unless: object = False) -> list[tuple[float, ...] | Verdict]:
        """Confirm and time several configurations in turn; an empty list when the worker could not, or is to end.

        One that fails, does harm or takes the worker down gets its verdict, and the others are held again without it.

        Args:
            unless: What ends the finals as soon as it is true.
        """
        if not tasks:
            return []
        ends = self._finals(tasks, heat, unless)
        died = not ends
        if died and not unless:
            ends = self._alone(tasks, unless)
        lost = any(isinstance(end, Verdict) and end.lost for end in ends)
        if lost:
            self.replace()
        left = [number for number, end in enumerate(ends) if not isinstance(end, Verdict)]
        if not (died or lost):
            return ends
        if unless or len(left) == len(tasks):  # each is sound by itself
            return []
        again = self.finals([tasks[number] for number in left], heat, unless)
        for number, end in zip(left, again, strict=False):
            ends[number] = end
        return ends if again or not left else []

    def _finals(self, tasks: Sequence[Task], heat: Heat, unless: object) -> list[tuple[float, ...] | Verdict]:
        limit = MARGIN_SECONDS + heat.seconds + sum(self._trial_limit(task) for task in tasks)
        for _ in range(MOST_KILLED):
            try:
                return self.ask(worker_process.finals, list(tasks), heat, limit=limit, unless=unless)
            except Killed:
                continue
            except TunerError:
                break
        return []

    def _alone(self, tasks: Sequence[Task], unless: object) -> list[tuple[float, ...] | Verdict]:
        """Hold finals of each by itself, to find who took the worker down; nothing for those that are sound."""
        return [self._by_itself(task, unless) for task in tasks if not unless]

    def _by_itself(self, task: Task, unless: object) -> tuple[float, ...] | Verdict:
        limit = MARGIN_SECONDS + self._trial_limit(task)
        try:
            (end,) = self.ask(worker_process.finals, [task], ONE_ROUND, limit=limit, unless=unless)
        except Killed:
            return ()
        except Rejected as error:
            return Verdict(evaluation=Evaluation.rejected(error))
        except TunerError:  # the bench itself
            return ()
        if not isinstance(end, Verdict):
            return ()
        if end.lost:
            self.replace()
        return replace(end, lost=False)

    def agreement(self, task: Task) -> Agreement | None:
        """Judge a configuration by what its problem is a part of; None if it fails or there is no such whole."""
        if not self.spec.problem.has_whole:
            return None
        try:
            return self.ask(worker_process.agreement, task)
        except TunerError:
            return None

    def health(self) -> tuple[float, ...]:
        """Return some canaries of a fresh or used worker in seconds; none when they could not be timed."""
        try:
            return self.ask(worker_process.health)
        except TunerError:
            return ()

    def telemetry(self) -> Telemetry:
        """Return the device's state now; nothing is known of one that does not answer."""
        try:
            return self.ask(worker_process.telemetry)
        except TunerError:
            return Telemetry()

    def close(self) -> None:
        """End the worker process."""
        self._processes.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
