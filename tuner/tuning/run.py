"""The main loop: choose configurations, compile them ahead, evaluate each in the worker, store its result."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace

from tuner.bench.protocol import Verdict
from tuner.bench.telemetry import warnings
from tuner.errors import Killed, Rejected, StorageError, TimedOut, TunerError
from tuner.problems.whole import Agreement
from tuner.results import Evaluation, Result
from tuner.storage import COMPILE, LAUNCH, Champion, Writer
from tuner.tuning.budget import TRIAL_SECONDS, SearchClock
from tuner.tuning.ceiling_check import CeilingCheck
from tuner.tuning.context import RunContext
from tuner.tuning.delivery import Delivery
from tuner.tuning.evaluation import Built
from tuner.tuning.finals import MOST_PASSES
from tuner.tuning.interrupt import interruptible
from tuner.tuning.pipeline import Candidate, Pipeline
from tuner.tuning.progress import RankedResult, Report, Unstored
from tuner.tuning.proposals import ProposalQueue, measured
from tuner.tuning.rematch import FinalsResult, Rematch
from tuner.tuning.resource_filter import FilterStats
from tuner.tuning.retries import Retries
from tuner.tuning.roofline_stop import near_floor
from tuner.tuning.state import RunState
from tuner.tuning.stopping import Stopping


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run ended.

    Attributes:
        reason: As in :class:`.progress.Report`.
        agreement: How far the network's classes agree, if the winner's factors are rounded.
    """

    reason: str
    settled: FinalsResult
    agreement: Agreement | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One run of a study, complete: see :func:`.assembly.open_run`, which makes its parts and ends them."""

    context: RunContext
    state: RunState
    clock: SearchClock
    proposals: ProposalQueue
    pipeline: Pipeline
    writer: Writer
    delivery: Delivery
    finals: Rematch
    stopping: Stopping
    ceiling_check: CeilingCheck
    retries: Retries
    filter_stats: FilterStats

    def to_the_end(self) -> End:
        """Search, try the suspects, and settle the winner.

        Raises:
            Unstored: The store could no longer be written; has the report.
        """
        context, progress, settled = self.context, self.state.progress, None
        try:
            with self.writer, interruptible(context.observer.says, context.interrupt):
                progress.begun = context.budget.elapsed
                reason = self._search_and_suspects()
                progress.searched = context.budget.elapsed
                passes = 0 if is_settled(reason, context.handle.champion()) else MOST_PASSES
                settled = self.finals.settle(passes, use_all=reason == "time")
                agreement = self._agreement(settled.best)
                reason = "interrupted" if context.interrupt else reason
                self._remember(reason)
                context.handle.note()
        except BaseException as error:
            with suppress(TunerError):  # release the claims, if the store still answers
                self.pipeline.give_back()
            if isinstance(error, StorageError):
                end = End(reason="storage", settled=settled or self.finals.unsettled())
                raise Unstored(error, self.report(end)) from error
            raise
        return End(reason=reason, settled=settled, agreement=agreement)

    def report(self, end: End) -> Report:
        """Return what the run found, what it cost, and any warnings."""
        context, state, facts = self.context, self.state, self.context.worker.facts
        state.costs.compile_wait, state.costs.total = self.pipeline.waited, context.budget.elapsed
        best = end.settled.best
        return Report(
            progress=state.progress,
            reason=end.reason,
            best=best,
            baselines=measured(context.space, state.results.values()),
            failed=tuple(each for each in (state.new if best else state.results).values() if not each.ok),
            costs=state.costs,
            health=(*context.canary.lines, *warnings(state.new.values())),
            tolerance=facts.tolerance,
            unit=facts.unit,
            agreement=end.agreement,
            finals=end.settled.lines,
            filter_stats=self.filter_stats,
            stopped=self.stopping.lines(state.results),
            over=self.stopping.stop is not None and end.reason != "interrupted",
        )

    def _remember(self, reason: str) -> None:
        """Store that this search is over, for the next run of the same command."""
        if reason != "interrupted" and (ended := self.stopping.as_ended(self.state.results)):
            self.context.handle.set_ended(ended)

    def _agreement(self, best: tuple[RankedResult, ...]) -> Agreement | None:
        """Check a winner whose factors are rounded with the whole network."""
        context = self.context
        if context.options.precision == "fp32" or not best or not best[0].winner:
            return None
        if context.interrupt or context.budget.left < 0:
            return None
        task, started = self.finals.task_of(best[0].result), time.monotonic()
        agreement = context.worker.agreement(task) if task else None
        self.state.costs.finals += time.monotonic() - started
        return agreement

    def _search_and_suspects(self) -> str:
        reason = self._search()
        self._give_back()
        self._try_suspects()
        self._give_back()
        return "interrupted" if self.context.interrupt else reason

    def _give_back(self) -> None:
        """Store and show what is finished, and release the other claims."""
        self.delivery.flush()
        self.pipeline.give_back()

    def _search(self) -> str:
        context, pipeline = self.context, self.pipeline
        while not (reason := self._budget_spent()):
            if context.shares_host or len(pipeline.pending) < context.options.jobs:
                self.delivery.hand_over()
                self._fill()
            if not pipeline.pending:
                return "exhausted" if self.proposals.exhausted else "trials"
            for candidate in pipeline.ready(context.interrupt, self._seconds_left()):
                if self._budget_spent() not in ("", "trials"):
                    break
                self._finish(candidate)
        return reason

    def _budget_spent(self) -> str:
        """Return why the search ends now; empty while it continues."""
        options, progress = self.context.options, self.state.progress
        progress.elapsed = self.context.budget.elapsed
        if self.context.interrupt:
            return "interrupted"
        if self._seconds_left() <= 0:
            return "time"
        if options.trials is not None and progress.done >= options.trials:
            return "trials"
        self.ceiling_check.look(progress)
        if near_floor(options, progress):
            return "floor"
        return self.stopping.ask(progress, self.state.results)

    def _seconds_left(self) -> float:
        """Return how many seconds are left to the search."""
        return self.clock.left(self.state.results.values())

    def _fill(self) -> None:
        """Keep the compilers busy, with no more configurations than trials are left."""
        trials = self.context.options.trials
        self.pipeline.fill(None if trials is None else trials - self.state.progress.done)

    def _finish(self, candidate: Candidate) -> None:
        """Evaluate one compiled configuration; its result is handed over while a separate device runs the next."""
        begun = time.time()
        verdict = self._verdict(candidate)
        if verdict is None:
            return  # its claim is released with those that were not begun
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
        self.delivery.add(result)
        self.state.progress.elapsed = self.context.budget.elapsed
        if self.context.shares_host:
            self.delivery.hand_over()

    def _put_off(self, candidate: Candidate, verdict: Verdict) -> None:
        """Move a configuration to the end of the queue; if this process dies meanwhile, it is not a suspect."""
        self.context.observer.says(self.retries.line(candidate.configuration, verdict))
        self.context.handle.mark(candidate.configuration, COMPILE)
        self.pipeline.send([(candidate.configuration, candidate.baseline)])

    def _verdict(self, candidate: Candidate) -> Verdict | None:
        """Return the verdict on a configuration; None if the budget ended meanwhile."""
        try:
            built = self.pipeline.built(candidate)
        except Rejected as error:
            return Verdict(evaluation=Evaluation.rejected(error), killed=isinstance(error, Killed))
        self.context.handle.mark(candidate.configuration, LAUNCH)
        restarts = self.context.worker.restarts
        verdict = self._evaluated(candidate, built)
        if verdict is None:
            return None
        evaluation = built.compiled.completed(verdict.evaluation)
        if self.context.worker.restarts != restarts:
            evaluation = replace(evaluation, text=f"{evaluation.text}\n{self.context.canary.check()}")
        return replace(verdict, evaluation=evaluation)

    def _evaluated(self, candidate: Candidate, built: Built) -> Verdict | None:
        """Have the worker evaluate a configuration while the next ones are prepared; None if the budget ended."""
        worker, best = self.context.worker, self.state.progress.best
        started = time.monotonic()
        task = built.task(incumbent=best.seconds if best else None, prune=not candidate.baseline)
        most = max(0.0, self._seconds_left()) + TRIAL_SECONDS
        future = worker.start(task, most)
        if not self.context.shares_host:
            self.delivery.hand_over()  # store, propose and render while the device is busy
            self._fill()
        verdict = worker.finish(future)
        spent = time.monotonic() - started
        self.state.costs.add(verdict, spent)
        if verdict.outcome == TimedOut.outcome and most < worker.limit_of(task) and spent >= most:
            self.clock.lost = self.state.costs.prepare
            return None
        return verdict

    def _try_suspects(self) -> None:
        """Try the configurations that were on the device when an earlier run died: last, and one at a time."""
        context, results = self.context, self.state.results
        for configuration in () if context.interrupt else context.handle.suspects():
            if not self.clock.suspect(results.values()):
                return
            granted = context.searched.find(configuration) is not None and context.handle.claim(
                [configuration], suspects_ok=True
            )
            if not granted:
                continue
            context.observer.says(f"trying a suspect of an interrupted run alone: {configuration}")
            self.pipeline.send([(configuration, results[configuration.key].baseline)])
            while ready := self.pipeline.ready(context.interrupt, self._seconds_left()):
                for candidate in ready:
                    self._finish(candidate)
            self.state.progress.known -= configuration.key in self.state.new  # it counts once, as a result of this run


def is_settled(reason: str, champion: Champion | None) -> bool:
    """Whether to skip the finals: there is no time for them, or an earlier run held them after its search ended."""
    return reason == "interrupted" or (reason == "over" and champion is not None)
