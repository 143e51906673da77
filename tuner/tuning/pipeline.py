"""Claimed configurations on their way through the compilers, some ahead of the one that is measured."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from tuner.bench.protocol import BenchFacts
from tuner.devices.compiler import COMPILE_SECONDS, Compiled, Compiler
from tuner.errors import Infeasible
from tuner.kernels.configuration import Configuration
from tuner.kernels.space import Space
from tuner.storage import StudyHandle
from tuner.tuning.evaluation import Built, Prepared, prepare
from tuner.tuning.fingerprint import fingerprint
from tuner.tuning.interrupt import Interrupt
from tuner.tuning.options import RunOptions
from tuner.tuning.proposals import ProposalQueue

POLL_SECONDS = 0.2  # between looks at Ctrl-C while waiting for compilers
AHEAD = 2  # compilations in flight per compiling process


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A claimed configuration on its way through the compiler.

    Attributes:
        prepared: None where the template's Python failed for it, as the future then says.
    """

    configuration: Configuration
    baseline: str
    fingerprint: str
    prepared: Prepared | None
    future: Future[Compiled]


class Pipeline:
    """Owner of the compile pool; :meth:`close` ends it.

    Attributes:
        pending: Submitted, and not yet handed on by :meth:`ready`.
        claimed: Claimed in the store, and without a result.
        waited: Seconds spent waiting for compilers.
    """

    def __init__(
        self, options: RunOptions, space: Space, facts: BenchFacts, proposals: ProposalQueue, handle: StudyHandle
    ) -> None:
        self._options, self._space, self._facts, self._proposals, self._handle = (
            options,
            space,
            facts,
            proposals,
            handle,
        )
        self.pending: deque[Candidate] = deque()
        self.claimed: dict[str, Configuration] = {}
        self.waited = 0.0
        self._compiler = Compiler(facts.environment, options.jobs, options.compile_timeout or COMPILE_SECONDS)

    def fill(self, most: int | None) -> None:
        """Keep the compilers busy: claim what the queue gives, up to ``most`` without a result, and submit it."""
        jobs = self._options.jobs
        room = AHEAD * jobs - len(self.pending)
        if room < jobs // 4:
            return  # several at a time cost little more than one
        if most is not None:
            room = min(room, most - len(self.claimed))
        while room > 0 and not (self.pending and not self._proposals.has_some(hurry=len(self.pending) < jobs)):
            taken = self._proposals.take(min(room, jobs))  # the first compile meanwhile
            if not taken:
                break
            self.send(taken)
            room -= len(taken)

    def send(self, taken: Sequence[tuple[Configuration, str]]) -> None:
        """Render and submit claimed configurations, each with its baseline's name."""
        self.claimed |= {configuration.key: configuration for configuration, _ in taken}
        self.pending += [self.candidate(configuration, baseline) for configuration, baseline in taken]

    def candidate(self, configuration: Configuration, baseline: str) -> Candidate:
        """Render a configuration and submit it to the compilers; its future tells if either fails."""
        template, prepared = self._space.template(configuration.template), None
        future: Future[Compiled] = Future()
        try:
            prepared = prepare(template, configuration, self._options.problem, self._facts)
            future = self._compiler.submit(prepared.rendered.source)
        except Infeasible as error:  # the template's Python fails for this one: its outcome, as the compiler's would be
            future.set_exception(error)
        return Candidate(
            configuration=configuration,
            baseline=baseline,
            fingerprint=fingerprint(template, configuration, self._options.spec, self._facts),
            prepared=prepared,
            future=future,
        )

    def built(self, candidate: Candidate) -> Built:
        """Return a candidate with its binary; waits for it.

        Raises:
            Rejected: It cannot be rendered or compiled.
            TunerError: The disk is full.
        """
        compiled = self._compiler.result(candidate.future)
        assert candidate.prepared is not None  # else the future would have raised
        return candidate.prepared.built(compiled)

    def ready(self, interrupt: Interrupt, most: float = math.inf) -> list[Candidate]:
        """Wait for compilations: all of them where kernels run on the compiling cores, else the next to finish.

        Args:
            most: Seconds to wait; what is finished by then is returned.
        """
        started = time.monotonic()
        futures = [candidate.future for candidate in self.pending]
        wanted = ALL_COMPLETED if self._facts.shares_host else FIRST_COMPLETED
        while not interrupt:
            left = started + most - time.monotonic()
            done, waiting = wait(futures, timeout=max(0.0, min(POLL_SECONDS, left)), return_when=wanted)
            if not waiting or left <= 0 or (done and wanted == FIRST_COMPLETED):
                break
        self.waited += time.monotonic() - started
        ready = [candidate for candidate in self.pending if candidate.future.done()]
        if not self._facts.shares_host:
            ready = ready[:1]  # then the compilers are fed again before the next one is measured
        self.pending = deque(candidate for candidate in self.pending if candidate not in ready)
        return ready

    def arrived(self, configuration: Configuration) -> None:
        """Forget the claim of a configuration that has its result."""
        self.claimed.pop(configuration.key, None)

    def give_back(self) -> None:
        """Release what was claimed and has no result, and stop compiling it: the finals want the machine."""
        if any(not candidate.future.done() for candidate in self.pending):
            self._compiler.abandon()
        self._handle.release(self.claimed.values())
        self.claimed.clear()
        self.pending.clear()

    def close(self) -> None:
        """End the compiling processes."""
        self._compiler.close()
