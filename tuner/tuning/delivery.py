"""Deliver results from the device to the store, the sampler and the observer."""

from __future__ import annotations

from collections import deque

from tuner.results import Result
from tuner.storage import Writer
from tuner.tuning.pipeline import Pipeline
from tuner.tuning.progress import Observer
from tuner.tuning.proposals import ProposalQueue
from tuner.tuning.state import RunState


class Delivery:
    """Hands results on while the device is busy with the next one; a result is stored before it is shown."""

    def __init__(
        self, state: RunState, pipeline: Pipeline, proposals: ProposalQueue, writer: Writer, observer: Observer
    ) -> None:
        self._state, self._pipeline, self._proposals = state, pipeline, proposals
        self._writer, self._observer = writer, observer
        self._finished: deque[Result] = deque()
        self._unshown: deque[Result] = deque()

    def add(self, result: Result) -> None:
        """Count a trial; the next :meth:`hand_over` delivers it."""
        self._state.add(result)
        self._state.progress.done += 1
        self._finished.append(result)

    def take_in(self, result: Result) -> None:
        """Record a result of the finals and hand it over; it does not count as a new trial."""
        self._state.add(result)
        self._spread(result)

    def hand_over(self) -> None:
        """Deliver what is finished to the store, the pipeline, the sampler and the observer."""
        while self._finished:
            result = self._finished.popleft()
            self._unshown.append(result)
            self._spread(result)
        self._show(still_waiting=self._writer.pending)

    def flush(self) -> None:
        """Hand over what is finished, and wait until it is stored and shown.

        Raises:
            StorageError: It could not be stored.
        """
        self.hand_over()
        self._writer.flush()
        self._show()

    def _show(self, still_waiting: int = 0) -> None:
        progress = self._state.progress
        progress.compiling = sum(not candidate.future.done() for candidate in self._pipeline.pending)
        while len(self._unshown) > still_waiting:
            self._observer.trial(self._unshown.popleft(), progress)

    def _spread(self, result: Result) -> None:
        self._writer.put(result)
        self._pipeline.arrived(result.configuration)
        self._proposals.learn(result)
