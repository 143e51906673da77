"""Retry configurations whose process was killed from outside, which says nothing about them."""

from __future__ import annotations

from collections import Counter

from tuner.bench.protocol import Verdict
from tuner.devices.compiler import MOST_KILLED
from tuner.kernels.configuration import Configuration


class Retries:
    """Counts how often each configuration's process was killed, by the system (out of memory) or by a user."""

    def __init__(self) -> None:
        self._killed: Counter[str] = Counter()

    def wants(self, configuration: Configuration, verdict: Verdict) -> bool:
        """Whether to try it again; after the third time its outcome is ``crashed``."""
        if not verdict.killed:
            return False
        self._killed[configuration.key] += 1
        return self._killed[configuration.key] < MOST_KILLED

    @staticmethod
    def line(configuration: Configuration, verdict: Verdict) -> str:
        """Return a line that says that it is deferred, and why."""
        return f"{verdict.evaluation.message}; tried again later: {configuration}"
