"""Canary: the reference kernel's time before and during a run shows whether the device has changed."""

from __future__ import annotations

import statistics

from tuner.bench.worker import Worker
from tuner.tuning.progress import Observer

DRIFT = 0.05


class Canary:
    """The device's health during one run, and every line shown about it.

    Attributes:
        before: Times of the reference kernel in seconds before the first trial; none when it could not be timed.
    """

    def __init__(self, worker: Worker, observer: Observer) -> None:
        self._worker, self._observer = worker, observer
        self.before = worker.health()
        self.lines: list[str] = []

    def canary(self) -> float | None:
        """Time the reference kernel now (nine launches of about 2 ms); None when that fails."""
        now = self._worker.health()
        return statistics.median(now) if now else None

    def check(self) -> str:
        """Time the reference kernel again after a fault, and report how its time has changed."""
        now = self.canary()
        if now is None or not self.before:
            line = "health check: the reference kernel could not be timed"
        else:
            change = now / statistics.median(self.before)
            line = f"health check: the reference kernel takes {change:.3f} of its time before"
            if abs(change - 1) <= DRIFT:
                return line
        self.warn(line)
        return line

    def warn(self, line: str) -> None:
        """Show a line now, and keep it for the report."""
        self.lines.append(line)
        self._observer.says(line)
