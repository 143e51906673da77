"""Results on their way from the device: to the store, to the sampler, and to whoever watches."""

from __future__ import annotations

from collections import deque

from tuner.results import Result
from tuner.storage import Writer
from tuner.tuning.pipeline import Pipeline
from tuner.tuning.progress import Observer
from tuner.tuning.proposals import ProposalQueue
from tuner.tuning.state import RunState


class Delivery:
    """Hands results on while the device is busy with the next; what was shown is in the store."""

    def __init__(
        self, state: RunState, pipeline: Pipeline, proposals: ProposalQueue, writer: Writer, observer: Observer
    ) -> None:
        self._state, self._pipeline, self._proposals = state, pipeline, proposals
        self._writer, self._observer = writer, observer
        self._finished: deque[Result] = deque()
        self._unshown: deque[Result] = deque()

    def add(self, result: Result) -> None:
        """Count a trial; the others hear of it by the next :meth:`hand_over`."""
        self._state.add(result)
        self._state.progress.done += 1
        self._finished.append(result)

    def take_in(self, result: Result) -> None:
        """Count a result of the finals, and hand it over; it is no new trial."""
        self._state.add(result)
        self._spread(result)

    def hand_over(self) -> None:
        """Let the store, the pipeline, the sampler and the observer have what is finished."""
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
