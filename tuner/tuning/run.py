"""The loop: which configurations next, compile them ahead, evaluate each in the worker, store its result."""

from __future__ import annotations

import statistics
import time
from collections import deque
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace

from tuner.agreement import Agreement
from tuner.compiler import COMPILE_SECONDS, Compiled, Compiler
from tuner.conditions import warnings
from tuner.drift import as_of_now
from tuner.errors import Rejected, UsageError
from tuner.protocol import BenchFacts, Task, Verdict, ragged_batches
from tuner.render import Rendered, render
from tuner.results import Result
from tuner.search.candidates import Candidates
from tuner.search.samplers import Sampler, make_sampler
from tuner.search.warm import warmed
from tuner.space import Space, enumerate_space
from tuner.storage import LAUNCH, Store, StudyHandle, Writer, foresee
from tuner.templates import Configuration
from tuner.tuning.carry import carry_over
from tuner.tuning.donors import Donor, find_donor
from tuner.tuning.fingerprint import fingerprint, study_key
from tuner.tuning.floor_stop import near_floor
from tuner.tuning.foresight import Foresight
from tuner.tuning.heats import settle, task_of
from tuner.tuning.interrupt import interruptible
from tuner.tuning.options import RunOptions
from tuner.tuning.progress import Costs, Observer, Progress, Report, Standing
from tuner.tuning.stopping import Stopping
from tuner.tuning.supply import Supply
from tuner.worker import Worker

DRIFT = 0.05
NAIVE = "naive 32x32 (B,M,1)"
POLL_SECONDS = 0.2  # between looks at Ctrl-C while waiting for compilers
AHEAD = 2  # compilations in flight per compiling process


def tune(options: RunOptions, observer: Observer) -> Report:
    """Run a tuning study until its budget is spent, its space is exhausted, or Ctrl-C.

    No configuration can end it: whatever one does is its outcome. Results are in the store when this returns, also
    after ``KeyboardInterrupt``, which ends the search early and is reported as the reason.

    Raises:
        UsageError: Something asked for does not exist here; nothing was written.
        StorageError: The store cannot be opened or written; what was committed stays.
    """
    started = time.monotonic()
    foresee(options.storage)
    with Worker(options.spec, options.trial_timeout) as worker:
        space = enumerate_space(options.templates, options.layer, worker.facts.limits)
        if not len(space):
            raise UsageError(f"layer {options.layer.name}: no template has a valid configuration on {options.device}")
        searched = options.only.of(space)
        with Store.open(options.storage) as store:
            donor = find_donor(store, study_key(space, options.spec, worker.facts), searched, options)
            handle, news = open_study(store, space, options, worker.facts)
            if options.only:
                news.append(f"only {options.only}: {len(searched):,} of {len(space):,} valid configurations")
            if donor:
                news.append(str(donor))
            for line in news:
                observer.says(line)
            run = Run(options, observer, worker, space, handle)
            run.begin(donor)
            run.costs.prepare = time.monotonic() - started
            return run.to_the_end(started)


def open_study(store: Store, space: Space, options: RunOptions, facts: BenchFacts) -> tuple[StudyHandle, list[str]]:
    """Make or resume the study; it takes over what its siblings have measured meanwhile and is valid here."""
    key = study_key(space, options.spec, facts)
    handle = store.study(key, facts.environment, [part.template for part in space.parts])
    return handle, carry_over(store, handle, space, options.spec, facts)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A claimed configuration on its way through the compiler."""

    configuration: Configuration
    baseline: str
    rendered: Rendered
    fingerprint: str
    future: Future[Compiled]


class Run:
    """One run of a study; owns the compile pool and the writer while it lasts."""

    def __init__(
        self, options: RunOptions, observer: Observer, worker: Worker, space: Space, handle: StudyHandle
    ) -> None:
        self.options, self.observer, self.worker, self.space, self.handle = options, observer, worker, space, handle
        self.facts, self.searched = worker.facts, options.only.of(space)
        self._canaries = worker.health()
        known, drift = as_of_now(handle.results(), self._canaries)
        self.results = {result.configuration.key: result for result in known}
        self.new: dict[str, Result] = {}
        self.costs, self.health = Costs(), list[str]()
        if drift:
            self._warn(drift)
        self.progress = Progress(
            study=handle.name,
            layer=options.layer,
            environment=self.facts.environment,
            space=len(self.searched),
            trials=options.trials,
            seconds=options.seconds,
            precision=options.precision,
            known=len(self.results),
            reused=sum(result.reused for result in self.results.values()),
        )
        for result in self.results.values():
            self._note_best(result)
        self.stopping = Stopping(self.searched, options)
        self.pending: deque[_Candidate] = deque()
        self.claimed: dict[str, Configuration] = {}
        self._unshown: deque[Result] = deque()

    def begin(self, donor: Donor | None) -> None:
        """Set up where configurations come from."""
        candidates = Candidates.of(self.searched)
        hurried = not self.facts.shares_host
        sampler: Sampler = make_sampler(self.options.sampler, candidates, self.options.seed, hurried)
        if donor:
            sampler = warmed(sampler, donor.known, self.options.seed)
        self.foresight = Foresight(self.searched, candidates)
        self.supply = Supply(self.searched, sampler, self.foresight, self.handle, self.results.values())

    def to_the_end(self, started: float) -> Report:
        """Search, try the suspects, settle the winner, and report."""
        limit = self.options.compile_timeout or COMPILE_SECONDS
        self.compiler = Compiler(self.facts.environment, self.options.jobs, limit)
        try:
            with Writer(self.handle) as self.writer:
                self._begun = time.monotonic()
                reason = self._search_or_interrupt()
                best = settle(self) if reason != "interrupted" else settle(self, heats=0)
            agreement = self._agreement(best)
            self.handle.note()
        finally:
            self.compiler.close()
        self.health += warnings(self.new.values())
        self.costs.total = time.monotonic() - started
        return Report(
            progress=self.progress,
            reason=reason,
            best=best,
            baselines=tuple(result for result in self.results.values() if result.baseline),
            failed=tuple(result for result in self.new.values() if not result.ok),
            costs=self.costs,
            health=tuple(self.health),
            tolerance=self.facts.tolerance,
            agreement=agreement,
            foreseen=self.foresight.foreseen,
            stopped=self.stopping.lines(self.results),
        )

    def _agreement(self, best: tuple[Standing, ...]) -> Agreement | None:
        """Let the network judge a winner whose factors are rounded."""
        if self.options.precision == "fp32" or not best or not best[0].winner:
            return None
        task = task_of(self, best[0].result)
        return self.worker.agreement(task) if task else None

    def _search_or_interrupt(self) -> str:
        with interruptible(self.observer.says) as self._interrupt:
            reason = self._search()
            self._give_back()
            self._try_suspects()
            self._give_back()
            return "interrupted" if self._interrupt else reason

    def _give_back(self) -> None:
        """Store and show what is finished, and release what was claimed and is not."""
        self.writer.flush()
        self._show()
        self.handle.release(self.claimed.values())
        self.claimed.clear()
        self.pending.clear()

    def _search(self) -> str:
        while not (reason := self._budget_spent()):
            self._fill()
            if not self.pending:
                return "exhausted" if self.supply.exhausted else "trials"
            for candidate in self._compiled():
                if self._budget_spent() not in ("", "trials"):
                    break
                self._finish(candidate)
        return reason

    def _budget_spent(self) -> str:
        self.progress.elapsed = time.monotonic() - self._begun
        if self._interrupt:
            return "interrupted"
        if self.options.seconds is not None and self.progress.elapsed >= self.options.seconds:
            return "time"
        if self.options.trials is not None and self.progress.done >= self.options.trials:
            return "trials"
        if near_floor(self.options, self.progress):
            return "floor"
        return self.stopping.ask(self.progress, self.results)

    def _fill(self) -> None:
        """Keep the compilers busy: claim what the supply gives, and submit it."""
        room = AHEAD * self.options.jobs - len(self.pending)
        if self.options.trials is not None:
            room = min(room, self.options.trials - self.progress.done - len(self.claimed))
        while room > 0 and (taken := self.supply.take(min(room, self.options.jobs))):  # the first compile meanwhile
            self.claimed |= {configuration.key: configuration for configuration, _ in taken}
            for configuration, baseline in taken:
                self._submit(configuration, baseline)
            room -= len(taken)

    def _submit(self, configuration: Configuration, baseline: str) -> None:
        template = self.space.template(configuration.template)
        rendered = render(template, configuration, self.options.layer, self.facts.limits.dialect)
        key = fingerprint(template, configuration, self.options.spec, self.facts)
        future = self.compiler.submit(rendered.source)
        self.pending.append(_Candidate(configuration, baseline, rendered, key, future))

    def _compiled(self) -> list[_Candidate]:
        """Wait for compilations: all of them where kernels run on the compiling cores, else the next to finish."""
        started = time.monotonic()
        futures = [candidate.future for candidate in self.pending]
        wanted = ALL_COMPLETED if self.facts.shares_host else FIRST_COMPLETED
        while not self._interrupt:
            done, waiting = wait(futures, timeout=POLL_SECONDS, return_when=wanted)
            if not waiting or (done and wanted == FIRST_COMPLETED):
                break
        self.costs.compile_wait += time.monotonic() - started
        ready = [candidate for candidate in self.pending if candidate.future.done()]
        if not self.facts.shares_host:
            ready = ready[:1]  # then the compilers are fed again before the next one is measured
        self.pending = deque(candidate for candidate in self.pending if candidate not in ready)
        return ready

    def _finish(self, candidate: _Candidate) -> None:
        """Evaluate one compiled configuration and hand its result over."""
        begun = time.time()
        verdict, compile_seconds = self._verdict(candidate)
        result = Result(
            configuration=candidate.configuration,
            outcome=verdict.outcome,
            fingerprint=candidate.fingerprint,
            text=verdict.text,
            measurement=verdict.measurement,
            resources=verdict.resources,
            costs=replace(verdict.costs, compile=compile_seconds),
            max_error=verdict.max_error,
            baseline=candidate.baseline,
            confirmed=verdict.confirmed,
            started=begun,
        )
        self.take_in(result)
        self.progress.done += 1
        self.progress.elapsed = time.monotonic() - self._begun
        self._unshown.append(result)
        self._show(still_waiting=self.writer.pending)

    def _show(self, still_waiting: int = 0) -> None:
        """Show the results that are in the store: what a user has seen is never lost."""
        while len(self._unshown) > still_waiting:
            self.observer.trial(self._unshown.popleft(), self.progress)

    def _verdict(self, candidate: _Candidate) -> tuple[Verdict, float]:
        try:
            compiled = self.compiler.result(candidate.future)
        except Rejected as error:
            return Verdict(outcome=error.outcome, text=error.whole), 0.0
        self.handle.mark(candidate.configuration, LAUNCH)
        restarts, started = self.worker.restarts, time.monotonic()
        task = self.task(candidate.configuration, candidate.rendered, compiled.binary, candidate.baseline)
        future = self.worker.start(task)
        if not self.facts.shares_host:
            self._fill()  # propose and render while the device is busy
        verdict = self.worker.finish(future)
        spent = time.monotonic() - started
        self.costs.measure += verdict.costs.measure
        self.costs.check += spent if verdict.measurement is None else verdict.costs.check
        if self.worker.restarts != restarts:
            verdict = replace(verdict, text=f"{verdict.text}\n{self._check_health()}")
        used = replace(verdict.resources, spill_bytes=compiled.spill_bytes)
        return replace(verdict, resources=used), compiled.seconds

    def task(self, configuration: Configuration, rendered: Rendered, binary: bytes, baseline: str = "") -> Task:
        """Return the worker's task for one compiled configuration."""
        template = self.space.template(configuration.template)
        layer = self.options.layer
        best = self.progress.best
        return Task(
            binary=binary,
            rendered=rendered,
            incumbent=best.seconds if best else None,
            prune=not baseline,
            confirm=tuple(
                (batch, template.launch_of(configuration, layer.with_batch(batch))) for batch in ragged_batches(layer.B)
            ),
        )

    def canary(self) -> float | None:
        """Time the reference kernel now (nine launches of about 2 ms); None when that fails."""
        now = self.worker.health()
        return statistics.median(now) if now else None

    def _check_health(self) -> str:
        """Time the reference kernel again after a fault, and say how the device has changed."""
        now = self.canary()
        if now is None or not self._canaries:
            line = "health check: the reference kernel could not be timed"
        else:
            change = now / statistics.median(self._canaries)
            line = f"health check: the reference kernel takes {change:.3f} of its time before"
            if abs(change - 1) <= DRIFT:
                return line
        self._warn(line)
        return line

    def _warn(self, line: str) -> None:
        self.health.append(line)
        self.observer.says(line)

    def take_in(self, result: Result) -> None:
        """Store a result and let best, counts and sampler know."""
        self.writer.put(result)
        self.claimed.pop(result.configuration.key, None)
        before = self.new.get(result.configuration.key)
        if before:  # measured again in the finals
            self.progress.outcomes[before.outcome] -= 1
        self.results[result.configuration.key] = self.new[result.configuration.key] = result
        self.progress.outcomes[result.outcome] += 1
        self.supply.learn(result)
        self._note_best(result)

    def _note_best(self, result: Result) -> None:
        if result.baseline == NAIVE and result.ok:
            self.progress.naive = result.seconds
        if result.ok and (self.progress.best is None or result.seconds < self.progress.best.seconds):
            self.progress.best = result

    def _try_suspects(self) -> None:
        """Try what was on the device when an earlier run died: last, and one at a time."""
        for configuration in () if self._interrupt else self.handle.suspects():
            if self.searched.find(configuration) is None or not self.handle.claim([configuration], suspects_ok=True):
                continue
            self.claimed[configuration.key] = configuration
            self.observer.says(f"trying a suspect of an interrupted run alone: {configuration}")
            self._submit(configuration, self.results[configuration.key].baseline)
            for candidate in self._compiled():
                self._finish(candidate)
