"""The state of a run: every result of its study, its own new ones, the best of them, and the costs."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.problems.problem import is_naive
from tuner.results import Result
from tuner.tuning.progress import Costs, Progress


class RunState:
    """Results by their configuration's key; ``progress`` is updated with each.

    Attributes:
        results: All of the study.
        new: Those of this run.
        costs: Where this run's time went so far.
    """

    def __init__(self, progress: Progress, known: Iterable[Result]) -> None:
        self.progress, self.costs = progress, Costs()
        self.results = {result.configuration.key: result for result in known}
        self.new: dict[str, Result] = {}
        for result in self.results.values():
            self._note_best(result)

    def add(self, result: Result) -> None:
        """Add a result of this run; a repeated measurement, as in the finals, replaces the earlier one."""
        key = result.configuration.key
        if before := self.new.get(key):
            self.progress.outcomes[before.outcome] -= 1
        self.results[key] = self.new[key] = result
        self.progress.outcomes[result.outcome] += 1
        self._note_best(result)

    def fastest(self, count: int) -> list[Result]:
        """Return the fastest correct results of the study, in order."""
        return sorted((each for each in self.results.values() if each.ok), key=lambda result: result.seconds)[:count]

    def _note_best(self, result: Result) -> None:
        if is_naive(result.baseline) and result.ok:
            self.progress.naive = result.seconds
        if result.ok and (self.progress.best is None or result.seconds < self.progress.best.seconds):
            self.progress.best = result
