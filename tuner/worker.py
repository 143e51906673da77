"""The process that owns a device, and its keeper in the main process.

A kernel that hangs, faults or kills its process costs the worker, not the study: the keeper notices, says what
happened, and the pool starts a fresh one that prepares the same bench again.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from tuner.errors import Crashed, DeviceError, Rejected, TimedOut, TunerError, WrongResult
from tuner.protocol import BenchFacts, BenchSpec, Task, Verdict

if TYPE_CHECKING:
    from tuner.agreement import Agreement

T = TypeVar("T")
PR_SET_PDEATHSIG = 1
PREPARE_SECONDS = 180.0
CANARY_SECONDS = 0.002
HEALTH_SAMPLES = 9
MARGIN_SECONDS = 20.0  # for loading, comparing and sampling around the launches, which have their own limit


# --- in the worker ----------------------------------------------------------------------------------------------


def begin(log: str, scratch: str) -> None:
    """Set a worker process up: no Ctrl-C, gone when its parent is, its own process group, its messages in ``log``.

    PoCL leaves files of every build behind; in a folder of this process in ``scratch`` they go when the run ends, and
    no other process clears them away beneath it.
    """
    os.environ["POCL_CACHE_DIR"] = tempfile.mkdtemp(prefix="pocl-", dir=scratch)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)


class _Workshop:
    """Everything a worker keeps between tasks."""

    def __init__(self, spec: BenchSpec) -> None:
        from tuner.bench import Bench
        from tuner.devices import open_device
        from tuner.inputs import network_inputs, random_inputs

        self.spec = spec
        self.device = open_device(spec.device)
        self.bench = Bench(self.device, spec.layer)
        self.inputs = network_inputs(self.bench, spec)
        self.second = random_inputs(self.bench, spec)
        seconds = statistics.median(self.bench.time_reference(self.inputs.x, self.inputs.w, spec.layer, samples=3))
        share = min(1.0, CANARY_SECONDS / max(seconds, 1e-9))
        self.canary_layer = spec.layer.with_batch(max(1, int(spec.layer.B * share)))
        self.facts = BenchFacts(
            environment=self.device.environment,
            limits=replace(self.device.limits, precision=spec.precision),
            shares_host=self.device.shares_host,
            reference_seconds=seconds,
            tolerance=self.inputs.tolerance,
            data_digest=self.inputs.digest,
        )

    def canaries(self, samples: int) -> tuple[float, ...]:
        """Time the reference kernel on a few images."""
        return self.bench.time_reference(self.inputs.x, self.inputs.w, self.canary_layer, samples)


_workshop: _Workshop | None = None


def prepared(spec: BenchSpec) -> _Workshop:
    """Return this process's workshop for ``spec``, made now if it is not there."""
    global _workshop  # noqa: PLW0603  (one device, one bench, one process)
    if _workshop is None or _workshop.spec != spec:
        _workshop = _Workshop(spec)
    return _workshop


def _facts(spec: BenchSpec) -> BenchFacts:
    from tuner.ceilings import with_ceilings

    shop = prepared(spec)
    return replace(shop.facts, environment=with_ceilings(shop.bench, shop.device.environment))


def _health(spec: BenchSpec) -> tuple[float, ...]:
    return prepared(spec).canaries(samples=HEALTH_SAMPLES)


def _evaluate(spec: BenchSpec, task: Task) -> Verdict:
    from tuner.measure import Trial, evaluate

    shop = prepared(spec)
    try:
        trial = Trial(shop.inputs, task, spec.protocol, shop.facts.reference_seconds)
        return evaluate(trial, shop.second, shop.canaries(samples=1)[0])
    except (Rejected, DeviceError) as error:
        return verdict_of(shop, error)


def verdict_of(shop: _Workshop, error: Rejected | DeviceError) -> Verdict:
    """Return the verdict on a configuration that failed, and whether this process is lost with it."""
    if isinstance(error, DeviceError):
        return Verdict(outcome=Crashed.outcome, text=str(error), lost=True)
    return Verdict(outcome=error.outcome, text=error.whole, lost=_lost(shop, error))


def _finals(spec: BenchSpec, tasks: Sequence[Task], rounds: range, seconds: float) -> list[tuple[float, ...] | Verdict]:
    """Confirm each task on the second inputs, then time the sound ones interleaved."""
    from tuner.measure import Trial, interleave

    shop = prepared(spec)
    ends: list[tuple[float, ...] | Verdict] = []
    sound: list[tuple[int, Trial]] = []
    for number, task in enumerate(tasks):
        try:
            trial = Trial(shop.inputs, task, spec.protocol, shop.facts.reference_seconds)
            trial.check()
            trial.confirm(shop.second)
        except Rejected as error:
            ends.append(verdict_of(shop, error))
            continue
        ends.append(())
        sound.append((number, trial))
    timed = interleave([trial for _, trial in sound], rounds, seconds)
    for (number, _), samples in zip(sound, timed, strict=True):
        ends[number] = samples
    return ends


def _agreement(spec: BenchSpec, task: Task) -> Agreement:
    from tuner.agreement import agreement_of
    from tuner.measure import Trial

    shop = prepared(spec)
    return agreement_of(Trial(shop.inputs, task, spec.protocol, shop.facts.reference_seconds), spec.data)


def _lost(shop: _Workshop, error: Rejected) -> bool:
    """Whether this process can still be trusted: a busy or faulted device and damaged inputs cannot be mended."""
    if isinstance(error, TimedOut | Crashed):
        return True
    return isinstance(error, WrongResult) and shop.inputs.checksum() != shop.inputs.original


# --- in the main process ----------------------------------------------------------------------------------------


class Worker:
    """Keeper of one device's worker process.

    Nothing a configuration does raises here: :meth:`evaluate` always returns a verdict.

    Args:
        spec: What the worker prepares.
        trial_timeout: Limit of a whole trial in seconds; None for the protocol's rule.
    """

    def __init__(self, spec: BenchSpec, trial_timeout: float | None = None) -> None:
        self.spec, self.trial_timeout = spec, trial_timeout
        self.restarts = 0
        self._folder = tempfile.TemporaryDirectory(prefix="tuner-", ignore_cleanup_errors=True)
        self._log = Path(self._folder.name) / "worker.log"
        self._pool = ProcessPool(
            max_workers=1,
            context=multiprocessing.get_context("spawn"),
            initializer=begin,
            initargs=(str(self._log), self._folder.name),
        )
        try:
            self.facts: BenchFacts = self._call(_facts, spec, limit=PREPARE_SECONDS)
        except ProcessExpired as error:
            raise DeviceError(f"device {spec.device}: {self._obituary(error)}".replace("\n", "; ")) from None
        except FutureTimeout:
            raise DeviceError(
                f"device {spec.device}: not ready after {PREPARE_SECONDS:.0f} s; see tune doctor"
            ) from None
        finally:
            if not hasattr(self, "facts"):
                self.close()

    def _call(self, function: Callable[..., T], *arguments: Any, limit: float) -> T:
        result: T = self._pool.schedule(function, args=list(arguments), timeout=limit).result()
        return result

    def ask(self, function: Callable[..., T], *arguments: Any, limit: float = PREPARE_SECONDS) -> T:
        """Call ``function(spec, *arguments)`` in the worker.

        Raises:
            TunerError: It failed, took longer than ``limit`` seconds, or the worker died; one line.
        """
        try:
            return self._call(function, self.spec, *arguments, limit=limit)
        except FutureTimeout:
            raise TimedOut(f"took longer than its limit of {limit:.0f} s") from None
        except ProcessExpired as error:
            raise Crashed(self._obituary(error).splitlines()[0]) from None

    def start(self, task: Task) -> Future[Verdict]:
        """Begin to check and time one configuration; read it with :meth:`finish`."""
        limit = self.trial_timeout or self._trial_limit(task)
        future: Future[Verdict] = self._pool.schedule(_evaluate, args=[self.spec, task], timeout=limit)
        return future

    def finish(self, future: Future[Verdict]) -> Verdict:
        """Return the verdict on a started configuration; a fault or time-out of the worker becomes the verdict."""
        try:
            verdict = future.result()
        except FutureTimeout as error:
            limit = error.args[1]
            verdict = Verdict(
                outcome=TimedOut.outcome,
                text=f"trial took longer than its limit of {limit:.1f} s; raise it with --trial-timeout",
            )
            self.restarts += 1
        except ProcessExpired as error:
            verdict = Verdict(outcome=Crashed.outcome, text=self._obituary(error))
            self.restarts += 1
        except (TunerError, MemoryError) as error:  # the bench itself could not be prepared
            verdict = Verdict(outcome=Crashed.outcome, text=str(error))
        if verdict.lost:
            self.replace()
        return verdict

    def evaluate(self, task: Task) -> Verdict:
        """Check and time one configuration."""
        return self.finish(self.start(task))

    def _trial_limit(self, task: Task) -> float:
        rules = self.spec.protocol
        launch = task.launch_limit or max(rules.launch_floor, rules.launch_multiple * self.facts.reference_seconds)
        return launch + MARGIN_SECONDS + rules.max_samples * self.facts.reference_seconds

    def _obituary(self, error: ProcessExpired) -> str:
        code = int(getattr(error, "exitcode", 0) or 0)
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        log = self._log.read_text(errors="replace")[-2000:].strip() if self._log.exists() else ""
        return f"the worker died with {name}" + (f"\n{log}" if log else "")

    def replace(self) -> None:
        """Give up the worker process; the next call starts another, which prepares the same bench again."""
        self.restarts += 1
        try:
            self._call(os._exit, 1, limit=10.0)
        except (ProcessExpired, FutureTimeout):
            return

    def finals(self, tasks: Sequence[Task], rounds: range, seconds: float) -> list[tuple[float, ...] | Verdict]:
        """Confirm and time several configurations in turn; an empty list when the worker could not."""
        limit = MARGIN_SECONDS + seconds + sum(self._trial_limit(task) for task in tasks)
        try:
            return self.ask(_finals, list(tasks), rounds, seconds, limit=limit)
        except TunerError:
            return []

    def agreement(self, task: Task) -> Agreement | None:
        """Classify images with a configuration as its layer's kernel; None if it fails or the layer has no network."""
        from tuner.networks import has_network

        if not has_network(self.spec.layer):
            return None
        try:
            return self.ask(_agreement, task)
        except TunerError:
            return None

    def health(self) -> tuple[float, ...]:
        """Return some canaries of a fresh or used worker in seconds; none when they could not be timed."""
        try:
            return self.ask(_health)
        except TunerError:
            return ()

    def close(self) -> None:
        """End the worker process."""
        self._pool.stop()
        self._pool.join()
        self._folder.cleanup()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
