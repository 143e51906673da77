"""A sampler in its own process, which proposes while the device is busy, so that no proposal delays it.

Each request carries the results since the last one. The queue holds at most the number requested: one, or more if
compilers had to wait, since a proposal made early is based on fewer results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from tuner.errors import TunerError
from tuner.processes.pool import DIED, Processes
from tuner.search.samplers.base import Sampler

MOST = 32  # proposals requested at a time
ENOUGH = 8  # calls in a row without a wait before fewer are requested
SECONDS = 600.0  # time limit of a request
MOST_DEATHS = 3  # deaths of the process that end the run


@dataclass(frozen=True, slots=True)
class Observation:
    """The outcome of a row: the arguments of ``observe``, or that another process has it."""

    index: int
    seconds: float | None = None
    noise: float = 0.0
    pruned: bool = False
    skipped: bool = False


class BackgroundSampler:
    """Serves the proposals of a sampler that lives in another process.

    Args:
        make: Makes the sampler; sent to the process.
    """

    def __init__(self, make: Callable[[], Sampler]) -> None:
        self._make = make
        self._processes = Processes(1)
        self._history: list[Observation] = []
        self._made, self._told = False, 0
        self._deaths = 0
        self._taken: set[int] = set()
        self._given: list[int] = []
        self._ready: deque[int] = deque()
        self._request: Future[list[int]] | None = None
        self._number, self._enough, self._grown = 1, 0, 0
        self._exhausted = False

    def propose(self, count: int) -> list[int]:
        """Return proposals from the queue, up to ``count``; wait only when it is empty."""
        self._receive()
        while not self._ready and not self._exhausted:
            self._request_more()
            self._receive(wait=True)
        rows = [self._ready.popleft() for _ in range(min(count, len(self._ready)))]
        self._request_more()
        return rows

    def has_some(self, hurry: bool = False) -> bool:
        """Say whether :meth:`propose` would answer at once.

        Args:
            hurry: A caller is waiting: request more at a time, doubling whenever there are new results too.
        """
        self._receive()
        some = bool(self._ready) or self._exhausted
        waits = hurry and not some
        self._enough = 0 if waits else self._enough + 1
        if waits and len(self._history) > self._grown:
            self._number, self._grown = min(2 * self._number, MOST), len(self._history)
        elif self._enough >= ENOUGH:
            self._number, self._enough = max(1, self._number // 2), 0
        self._request_more()
        return some

    def observe(self, index: int, seconds: float | None, *, noise: float = 0.0, pruned: bool = False) -> None:
        self._note(Observation(index, seconds, noise, pruned))

    def skip(self, index: int) -> None:
        self._note(Observation(index, skipped=True))

    def close(self) -> None:
        """End the process."""
        self._processes.close()

    def _note(self, outcome: Observation) -> None:
        self._history.append(outcome)
        self._taken.add(outcome.index)
        if outcome.index in self._ready:
            self._ready.remove(outcome.index)

    def _request_more(self) -> None:
        if self._request is not None or self._exhausted or len(self._ready) >= self._number:
            return
        make = None if self._made else self._make
        fresh = self._history[self._told :]
        self._made, self._told = True, len(self._history)
        self._request = self._processes.schedule(_serve, make, fresh, self._number, limit=SECONDS)

    def _receive(self, wait: bool = False) -> None:
        if self._request is None or not (wait or self._request.done()):
            return
        request, self._request = self._request, None
        try:
            rows = request.result()
        except (*DIED, TimeoutError) as error:
            self._deaths += 1
            if self._deaths >= MOST_DEATHS:
                raise TunerError(
                    f"sampler: its process died {self._deaths} times ({error}); try --sampler random"
                ) from None
            self._restart()
            return
        self._exhausted = not rows
        self._given += rows
        self._ready += [row for row in rows if row not in self._taken]

    def _restart(self) -> None:
        """Send the next process all results, and what the last one proposed."""
        self._history = [*(Observation(row, skipped=True) for row in self._given), *self._history]
        self._made, self._told, self._given = False, 0, []


_sampler: Sampler | None = None


def _serve(make: Callable[[], Sampler] | None, fresh: Sequence[Observation], count: int) -> list[int]:
    """Give this process's sampler the new results, and return its next proposals; ``make`` constructs the sampler."""
    global _sampler  # noqa: PLW0603  (one sampler, one process)
    if make:
        _sampler = make()
    assert _sampler is not None
    for each in fresh:
        if each.skipped:
            _sampler.skip(each.index)
        else:
            _sampler.observe(each.index, each.seconds, noise=each.noise, pruned=each.pruned)
    return _sampler.propose(count)
