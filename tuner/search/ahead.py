"""A sampler in a process of its own, which proposes while the device is busy: a proposal never holds it up.

With each order the process is told what became of earlier proposals. As many as are ordered lie ready at most: one,
and more where compilers waited for them, since what is proposed early knows less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from tuner.errors import TunerError
from tuner.processes import DIED, Processes
from tuner.search.samplers import Sampler

MOST = 32  # ordered at a time
ENOUGH = 8  # times in a row that nobody waited, before fewer are ordered
SECONDS = 600.0
MOST_DEATHS = 3


@dataclass(frozen=True, slots=True)
class News:
    """What became of a row: what ``observe`` takes, or that somebody else has it."""

    index: int
    seconds: float | None = None
    noise: float = 0.0
    pruned: bool = False
    skipped: bool = False


class Ahead:
    """Serves the proposals of a sampler that another process makes and keeps.

    Args:
        make: Makes the sampler; sent to the process.
    """

    def __init__(self, make: Callable[[], Sampler]) -> None:
        self._make = make
        self._processes = Processes(1)
        self._history: list[News] = []
        self._made, self._told = False, 0
        self._deaths = 0
        self._taken: set[int] = set()
        self._given: list[int] = []
        self._ready: deque[int] = deque()
        self._order: Future[list[int]] | None = None
        self._number, self._enough, self._grown = 1, 0, 0
        self._exhausted = False

    def propose(self, count: int) -> list[int]:
        """Return what lies ready, up to ``count``; wait for it only when nothing does."""
        self._receive()
        while not self._ready and not self._exhausted:
            self._order_more()
            self._receive(wait=True)
        rows = [self._ready.popleft() for _ in range(min(count, len(self._ready)))]
        self._order_more()
        return rows

    def has_some(self, hurry: bool = False) -> bool:
        """Say whether :meth:`propose` would answer at once.

        Args:
            hurry: Somebody waits: order more at a time, twice as many each time that there is news as well.
        """
        self._receive()
        some = bool(self._ready) or self._exhausted
        waits = hurry and not some
        self._enough = 0 if waits else self._enough + 1
        if waits and len(self._history) > self._grown:
            self._number, self._grown = min(2 * self._number, MOST), len(self._history)
        elif self._enough >= ENOUGH:
            self._number, self._enough = max(1, self._number // 2), 0
        self._order_more()
        return some

    def observe(self, index: int, seconds: float | None, *, noise: float = 0.0, pruned: bool = False) -> None:
        self._note(News(index, seconds, noise, pruned))

    def skip(self, index: int) -> None:
        self._note(News(index, skipped=True))

    def close(self) -> None:
        """End the process."""
        self._processes.close()

    def _note(self, news: News) -> None:
        self._history.append(news)
        self._taken.add(news.index)
        if news.index in self._ready:
            self._ready.remove(news.index)

    def _order_more(self) -> None:
        if self._order is not None or self._exhausted or len(self._ready) >= self._number:
            return
        make = None if self._made else self._make
        news = self._history[self._told :]
        self._made, self._told = True, len(self._history)
        self._order = self._processes.schedule(_serve, make, news, self._number, limit=SECONDS)

    def _receive(self, wait: bool = False) -> None:
        if self._order is None or not (wait or self._order.done()):
            return
        order, self._order = self._order, None
        try:
            rows = order.result()
        except (*DIED, TimeoutError) as error:
            self._deaths += 1
            if self._deaths >= MOST_DEATHS:
                raise TunerError(
                    f"sampler: its process died {self._deaths} times ({error}); try --sampler random"
                ) from None
            self._begin_again()
            return
        self._exhausted = not rows
        self._given += rows
        self._ready += [row for row in rows if row not in self._taken]

    def _begin_again(self) -> None:
        """Tell the next process everything, and what the last one has proposed."""
        self._history = [*(News(row, skipped=True) for row in self._given), *self._history]
        self._made, self._told, self._given = False, 0, []


_sampler: Sampler | None = None


def _serve(make: Callable[[], Sampler] | None, news: Sequence[News], count: int) -> list[int]:
    """Tell this process's sampler the news, and return its next proposals; ``make`` makes it anew."""
    global _sampler  # noqa: PLW0603  (one sampler, one process)
    if make:
        _sampler = make()
    assert _sampler is not None
    for each in news:
        if each.skipped:
            _sampler.skip(each.index)
        else:
            _sampler.observe(each.index, each.seconds, noise=each.noise, pruned=each.pruned)
    return _sampler.propose(count)
