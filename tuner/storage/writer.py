"""A thread that writes results, so that the device never waits for the disk."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Self

from tuner.errors import TunerError
from tuner.results import Result
from tuner.storage.mapping import check_result
from tuner.storage.study import StudyHandle


class Writer:
    """Records results of one study in the background, in the order they are put.

    Results that could not be written (full disk) are kept: the error is raised once, by the next ``put`` or ``flush``,
    and the ``flush`` after that retries. Results that are waiting together share a transaction.
    """

    def __init__(self, handle: StudyHandle) -> None:
        self._handle = handle
        self._waiting: deque[Result] = deque()
        self._changed = threading.Condition()
        self._error: TunerError | None = None
        self._paused = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="result-writer", daemon=True)
        self._thread.start()

    def put(self, result: Result) -> None:
        """Queue a result and return at once.

        Raises:
            StorageError: An earlier result could not be written; this one is queued anyway.
            UsageError: This result must not be stored; it is not queued.
        """
        check_result(result)
        with self._changed:
            if self._closing:
                raise RuntimeError("the writer is closed")
            self._waiting.append(result)
            self._changed.notify_all()
            self._raise_once()

    def flush(self) -> None:
        """Wait until everything put so far is committed.

        Raises:
            StorageError: It could not be written; it stays queued, and the next flush tries again.
        """
        with self._changed:
            if self._error is None:
                self._paused = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._waiting or self._error or self._closing)
            self._raise_once()

    def close(self) -> None:
        """Flush and end the thread."""
        try:
            self.flush()
        finally:
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._thread.join()

    @property
    def pending(self) -> int:
        """How many results are not committed yet."""
        with self._changed:
            return len(self._waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _raise_once(self) -> None:
        error, self._error = self._error, None
        if error:
            raise error

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or (self._waiting and not self._paused))
                if self._closing:
                    return
                batch = tuple(self._waiting)
            self._write(batch)

    def _write(self, batch: tuple[Result, ...]) -> None:
        try:
            self._handle.record_all(batch)
        except Exception as error:
            failed = error if isinstance(error, TunerError) else TunerError(f"storing a result: {error!r}")
            with self._changed:
                self._error, self._paused = failed, True
                self._changed.notify_all()
            return
        with self._changed:
            for _ in batch:
                self._waiting.popleft()
            self._changed.notify_all()
