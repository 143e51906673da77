"""The loop: which configurations next, compile them ahead, evaluate each in the worker, store its result."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tuner.bench.drift import as_of_now
from tuner.bench.protocol import Task, Verdict
from tuner.bench.worker import Worker
from tuner.errors import Killed, Rejected, StorageError, TimedOut, TunerError
from tuner.kernels.space import Space
from tuner.problems.whole import Agreement
from tuner.results import Evaluation, Result
from tuner.search.candidates import Candidates
from tuner.search.samplers.background import BackgroundSampler
from tuner.search.samplers.base import Sampler
from tuner.search.samplers.factory import QUICK, sampler_for_run
from tuner.storage import COMPILE, LAUNCH, StudyHandle, Writer
from tuner.tuning.budget import TRIAL_SECONDS, Budget, SearchClock
from tuner.tuning.canary import Canary
from tuner.tuning.ceiling_check import CeilingCheck
from tuner.tuning.finals import MOST_HEATS
from tuner.tuning.interrupt import interruptible
from tuner.tuning.ledger import Ledger
from tuner.tuning.options import RunOptions
from tuner.tuning.pipeline import Candidate, Pipeline
from tuner.tuning.progress import Costs, Observer, Progress, Report, Standing, Unstored
from tuner.tuning.proposals import ProposalQueue
from tuner.tuning.rematch import settle, task_of, unsettled
from tuner.tuning.reporting import report_of
from tuner.tuning.resource_filter import ResourceFilter
from tuner.tuning.retries import Retries
from tuner.tuning.roofline_stop import near_floor
from tuner.tuning.source_studies import SourceStudy
from tuner.tuning.stopping import Stopping


class Run:
    """One run of a study; owns the compile pool and the writer while it lasts."""

    def __init__(
        self, options: RunOptions, observer: Observer, worker: Worker, space: Space, handle: StudyHandle
    ) -> None:
        self.options, self.observer, self.worker, self.space, self.handle = options, observer, worker, space, handle
        self.facts, self.searched = worker.facts, options.only.of(space)
        self.canary, self._ceiling_check = Canary(worker, observer), CeilingCheck(worker, options)
        known, drift = as_of_now(handle.results(), self.canary.before)
        if drift:
            self.canary.warn(drift)
        self.costs = Costs()
        self.progress = Progress(
            study=handle.name,
            problem=options.problem,
            environment=self.facts.environment,
            space=len(self.searched),
            trials=options.trials,
            seconds=options.seconds,
            precision=options.precision,
            known=len(known),
            reused=sum(result.reused for result in known),
        )
        self.ledger = Ledger(self.progress, known)
        self.retries = Retries()
        self.finals: tuple[str, ...] = ()
        self._finished: deque[Result] = deque()
        self._unshown: deque[Result] = deque()

    def begin(self, donor: SourceStudy | None) -> None:
        """Set up where configurations come from."""
        candidates = Candidates.of(self.searched)
        self.stopping = Stopping(self.searched, self.options, candidates, self.handle.ended())
        self.resource_filter = ResourceFilter(self.searched, candidates)
        make = partial(
            sampler_for_run, self.options.sampler, candidates, self.options.seed, donor.known if donor else None
        )
        ahead = not self.facts.shares_host and (donor or self.options.sampler not in QUICK)
        self.sampler: Sampler = BackgroundSampler(make) if ahead else make()
        self.proposals = ProposalQueue(
            self.searched, self.sampler, self.resource_filter, self.handle, self.ledger.results.values()
        )

    def to_the_end(self, started: float) -> Report:
        """Search, try the suspects, settle the winner, and report.

        Raises:
            Unstored: The store takes no more; has the report.
        """
        self.budget = Budget(self.options.seconds, started)
        self._clock = SearchClock(self.budget, len(self.handle.suspects()))
        self.pipeline = Pipeline(self.options, self.space, self.facts, self.proposals, self.handle)
        try:
            with Writer(self.handle) as self.writer, interruptible(self.observer.says) as self.interrupt:
                self.worker.interrupt, self.progress.begun = self.interrupt, self.budget.elapsed
                reason = self._search_and_suspects()
                self.progress.searched = self.budget.elapsed
                best = settle(self, 0 if self._is_settled(reason) else MOST_HEATS, use_all=reason == "time")
                agreement = self._agreement(best)
                reason = "interrupted" if self.interrupt else reason
                self._remember(reason)
                self.handle.note()
        except BaseException as error:
            with suppress(TunerError):  # what is claimed is free again, where the store still answers
                self.pipeline.give_back()
            if isinstance(error, StorageError):
                raise Unstored(error, report_of(self, "storage", unsettled(self), None, started)) from error
            raise
        finally:
            self.pipeline.close()
            self.sampler.close()
        return report_of(self, reason, best, agreement, started)

    def _is_settled(self, reason: str) -> bool:
        """Say whether no finals are to be held: there is no time for them, or they were held where the search ended."""
        return reason == "interrupted" or (reason == "over" and self.handle.champion() is not None)

    def _remember(self, reason: str) -> None:
        """Let the same command know that this search is over."""
        if reason != "interrupted" and (ended := self.stopping.as_ended(self.ledger.results)):
            self.handle.set_ended(ended)

    def _agreement(self, best: tuple[Standing, ...]) -> Agreement | None:
        """Let the network judge a winner whose factors are rounded."""
        if self.options.precision == "fp32" or not best or not best[0].winner:
            return None
        if self.interrupt or self.budget.left < 0:
            return None
        task, started = task_of(self, best[0].result), time.monotonic()
        agreement = self.worker.agreement(task) if task else None
        self.costs.finals += time.monotonic() - started
        return agreement

    def _search_and_suspects(self) -> str:
        reason = self._search()
        self._give_back()
        self._try_suspects()
        self._give_back()
        return "interrupted" if self.interrupt else reason

    def _give_back(self) -> None:
        """Store and show what is finished, and release what was claimed and is not."""
        self._hand_over()
        self.writer.flush()
        self._show()
        self.pipeline.give_back()

    def _search(self) -> str:
        while not (reason := self._budget_spent()):
            if self.facts.shares_host or len(self.pipeline.pending) < self.options.jobs:
                self._hand_over()
                self._fill()
            if not self.pipeline.pending:
                return "exhausted" if self.proposals.exhausted else "trials"
            for candidate in self.pipeline.ready(self.interrupt, self._searching_for()):
                if self._budget_spent() not in ("", "trials"):
                    break
                self._finish(candidate)
        return reason

    def _budget_spent(self) -> str:
        self.progress.elapsed = self.budget.elapsed
        if self.interrupt:
            return "interrupted"
        if self._searching_for() <= 0:
            return "time"
        if self.options.trials is not None and self.progress.done >= self.options.trials:
            return "trials"
        self._ceiling_check.look(self.progress)
        if near_floor(self.options, self.progress):
            return "floor"
        return self.stopping.ask(self.progress, self.ledger.results)

    @property
    def time_for_finals(self) -> float:
        """Seconds left to the finals, of which a lost worker takes some to prepare again."""
        return self.budget.left - self._clock.lost

    def _searching_for(self) -> float:
        """Return how many seconds are left to the search."""
        return self._clock.left(self.ledger.results.values())

    def _fill(self) -> None:
        """Keep the compilers busy, with no more than the trials that are left."""
        self.pipeline.fill(None if self.options.trials is None else self.options.trials - self.progress.done)

    def _finish(self, candidate: Candidate) -> None:
        """Evaluate one compiled configuration; its result is handed over while a device apart has the next one."""
        begun = time.time()
        verdict = self._verdict(candidate)
        if verdict is None:
            return  # its claim is given back with those that were not begun
        if self.retries.wants(candidate.configuration, verdict):
            self._put_off(candidate, verdict)
            return
        result = Result(
            configuration=candidate.configuration,
            fingerprint=candidate.fingerprint,
            evaluation=verdict.evaluation,
            baseline=candidate.baseline,
            started=begun,
        )
        self.ledger.add(result)
        self.progress.done += 1
        self.progress.elapsed = self.budget.elapsed
        self._finished.append(result)
        if self.facts.shares_host:
            self._hand_over()

    def _put_off(self, candidate: Candidate, verdict: Verdict) -> None:
        """Send a configuration behind those that wait; should this process die meanwhile, it is no suspect."""
        self.observer.says(self.retries.line(candidate.configuration, verdict))
        self.handle.mark(candidate.configuration, COMPILE)
        self.pipeline.send([(candidate.configuration, candidate.baseline)])

    def _hand_over(self) -> None:
        """Let the store, the pipeline, the sampler and the observer have what is finished."""
        while self._finished:
            result = self._finished.popleft()
            self._unshown.append(result)
            self._spread(result)
        self._show(still_waiting=self.writer.pending)

    def _show(self, still_waiting: int = 0) -> None:
        """Show the results that are in the store: what a user has seen is never lost."""
        self.progress.compiling = sum(not candidate.future.done() for candidate in self.pipeline.pending)
        while len(self._unshown) > still_waiting:
            self.observer.trial(self._unshown.popleft(), self.progress)

    def _verdict(self, candidate: Candidate) -> Verdict | None:
        """Return what became of a configuration; None if the budget ended meanwhile."""
        try:
            compiled = self.pipeline.compiler.result(candidate.future)
        except Rejected as error:
            return Verdict(evaluation=Evaluation.rejected(error), killed=isinstance(error, Killed))
        self.handle.mark(candidate.configuration, LAUNCH)
        restarts, started = self.worker.restarts, time.monotonic()
        task = self.task(candidate, compiled.binary)
        most = max(0.0, self._searching_for()) + TRIAL_SECONDS
        future = self.worker.start(task, most)
        if not self.facts.shares_host:
            self._hand_over()  # store, propose and render while the device is busy
            self._fill()
        verdict = self.worker.finish(future)
        spent = time.monotonic() - started
        self.costs.add(verdict, spent)
        if verdict.outcome == TimedOut.outcome and most < self.worker.limit_of(task) and spent >= most:
            self._clock.lost = self.costs.prepare
            return None
        evaluation = compiled.completed(verdict.evaluation)
        if self.worker.restarts != restarts:
            evaluation = replace(evaluation, text=f"{evaluation.text}\n{self.canary.check()}")
        return replace(verdict, evaluation=evaluation)

    def task(self, candidate: Candidate, binary: bytes) -> Task:
        """Return the worker's task for one compiled configuration."""
        best = self.progress.best
        return Task(
            binary=binary,
            rendered=candidate.rendered,
            incumbent=best.seconds if best else None,
            prune=not candidate.baseline,
            confirm=candidate.confirm,
        )

    def take_in(self, result: Result) -> None:
        """Count a result and hand it over."""
        self.ledger.add(result)
        self._spread(result)

    def _spread(self, result: Result) -> None:
        self.writer.put(result)
        self.pipeline.arrived(result.configuration)
        self.proposals.learn(result)

    def _try_suspects(self) -> None:
        """Try what was on the device when an earlier run died: last, and one at a time."""
        for configuration in () if self.interrupt else self.handle.suspects():
            if not self._clock.suspect(self.ledger.results.values()):
                return
            if self.searched.find(configuration) is None or not self.handle.claim([configuration], suspects_ok=True):
                continue
            self.observer.says(f"trying a suspect of an interrupted run alone: {configuration}")
            self.pipeline.send([(configuration, self.ledger.results[configuration.key].baseline)])
            while ready := self.pipeline.ready(self.interrupt, self._searching_for()):
                for candidate in ready:
                    self._finish(candidate)
            self.progress.known -= configuration.key in self.ledger.new  # it counts once: as one of this run's
