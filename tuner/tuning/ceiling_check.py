"""Check the ceilings when a result reaches the floor: they may have been measured on a busy machine."""

from __future__ import annotations

from dataclasses import replace

from tuner.bench import worker_process
from tuner.bench.worker import Worker
from tuner.errors import TunerError
from tuner.results import Result
from tuner.tuning.finals import NOISE
from tuner.tuning.options import RunOptions
from tuner.tuning.progress import Progress
from tuner.tuning.roofline_stop import near_floor

MOST = 3  # checks in one run


class CeilingCheck:
    """Measures the ceilings again before the floor derived from them may end a search."""

    def __init__(self, worker: Worker, options: RunOptions) -> None:
        self._worker = worker
        self._wanted = replace(options, stop_at=min(options.stop_at or 1.0, 1 - NOISE))
        self._believed: Result | None = None
        self._left = MOST

    def look(self, progress: Progress) -> None:
        """Update the ceilings in ``progress`` if its best is new and appears to be at the floor."""
        best = progress.best
        if not self._left or best is None or best is self._believed or not near_floor(self._wanted, progress):
            return
        self._believed, self._left = best, self._left - 1
        try:
            progress.environment = self._worker.ask(worker_process.ceilings)
        except TunerError:
            return
