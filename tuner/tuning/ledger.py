"""What a run knows: every result of its study, those of its own, and the best of them."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.problems.problem import is_naive
from tuner.results import Result
from tuner.tuning.progress import Progress


class Ledger:
    """Results by their configuration's key; keeps ``progress`` in step with them.

    Attributes:
        results: All of the study.
        new: Those of this run.
    """

    def __init__(self, progress: Progress, known: Iterable[Result]) -> None:
        self._progress = progress
        self.results = {result.configuration.key: result for result in known}
        self.new: dict[str, Result] = {}
        for result in self.results.values():
            self._note_best(result)

    def add(self, result: Result) -> None:
        """Take in a result of this run; one measured again, as in the finals, replaces the first."""
        key = result.configuration.key
        if before := self.new.get(key):
            self._progress.outcomes[before.outcome] -= 1
        self.results[key] = self.new[key] = result
        self._progress.outcomes[result.outcome] += 1
        self._note_best(result)

    def _note_best(self, result: Result) -> None:
        if is_naive(result.baseline) and result.ok:
            self._progress.naive = result.seconds
        if result.ok and (self._progress.best is None or result.seconds < self._progress.best.seconds):
            self._progress.best = result
