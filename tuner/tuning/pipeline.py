"""Compile claimed configurations, some ahead of the one being measured."""

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

POLL_SECONDS = 0.2  # interval of checks for Ctrl-C while waiting for compilers
AHEAD = 2  # compilations in flight per compiling process


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A claimed configuration that is being compiled.

    Attributes:
        prepared: None if the template's Python failed for it; the future then holds the error.
    """

    configuration: Configuration
    baseline: str
    fingerprint: str
    prepared: Prepared | None
    future: Future[Compiled]


class Pipeline:
    """Owns the compile pool; :meth:`close` ends it.

    Attributes:
        pending: Submitted, but not yet returned by :meth:`ready`.
        claimed: Claimed in the store, but without a result.
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
        """Keep the compilers busy: claim proposals, up to ``most`` without a result, and submit them."""
        jobs = self._options.jobs
        room = AHEAD * jobs - len(self.pending)
        if room < jobs // 4:
            return  # several proposals at a time cost little more than one
        if most is not None:
            room = min(room, most - len(self.claimed))
        while room > 0 and not (self.pending and not self._proposals.has_some(hurry=len(self.pending) < jobs)):
            taken = self._proposals.take(min(room, jobs))  # so that the first compile meanwhile
            if not taken:
                break
            self.send(taken)
            room -= len(taken)

    def send(self, taken: Sequence[tuple[Configuration, str]]) -> None:
        """Render and submit claimed configurations, each with its baseline's name."""
        self.claimed |= {configuration.key: configuration for configuration, _ in taken}
        self.pending += [self.candidate(configuration, baseline) for configuration, baseline in taken]

    def candidate(self, configuration: Configuration, baseline: str) -> Candidate:
        """Render a configuration and submit it to the compilers; its future raises if either fails."""
        template, prepared = self._space.template(configuration.template), None
        future: Future[Compiled] = Future()
        try:
            prepared = prepare(template, configuration, self._options.problem, self._facts)
            future = self._compiler.submit(prepared.rendered.source)
        except Infeasible as error:  # the template's Python failed: an outcome like a compiler's error
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
        assert candidate.prepared is not None  # otherwise the future would have raised
        return candidate.prepared.built(compiled)

    def ready(self, interrupt: Interrupt, most: float = math.inf) -> list[Candidate]:
        """Wait for compilations: for all where kernels run on the compiling cores, else for the next to finish.

        Args:
            most: Longest wait in seconds; what is finished by then is returned.
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
            ready = ready[:1]  # so that the compilers get more work before the next one is measured
        self.pending = deque(candidate for candidate in self.pending if candidate not in ready)
        return ready

    def arrived(self, configuration: Configuration) -> None:
        """Forget the claim of a configuration whose result has arrived."""
        self.claimed.pop(configuration.key, None)

    def give_back(self) -> None:
        """Release what was claimed and has no result, and stop compiling it, to free the machine for the finals."""
        if any(not candidate.future.done() for candidate in self.pending):
            self._compiler.abandon()
        self._handle.release(self.claimed.values())
        self.claimed.clear()
        self.pending.clear()

    def close(self) -> None:
        """End the compiling processes."""
        self._compiler.close()
