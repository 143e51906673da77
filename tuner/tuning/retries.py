"""Configurations whose process was killed from outside: no verdict on them, so they are tried again later."""

from __future__ import annotations

from collections import Counter

from tuner.bench.protocol import Verdict
from tuner.devices.compiler import MOST_KILLED
from tuner.kernels.configuration import Configuration


class Retries:
    """Counts, by configuration, how often its process was killed by the system (no memory left) or by somebody."""

    def __init__(self) -> None:
        self._killed: Counter[str] = Counter()

    def wants(self, configuration: Configuration, verdict: Verdict) -> bool:
        """Whether to try it again; after the third time its result is ``crashed``."""
        if not verdict.killed:
            return False
        self._killed[configuration.key] += 1
        return self._killed[configuration.key] < MOST_KILLED

    @staticmethod
    def line(configuration: Configuration, verdict: Verdict) -> str:
        """Say that it is put off, and why."""
        return f"{verdict.evaluation.message}; tried again later: {configuration}"
