"""Optuna's tree-structured Parzen estimator, kept to valid and unseen configurations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.search.arrays import Rows
from tuner.search.candidates import ABSENT, Candidates
from tuner.search.samplers.base import PoolSampler

if TYPE_CHECKING:
    import optuna

RETRIES = 10  # draws before the nearest free configuration is taken
TEMPLATE = "template"


class TpeSampler(PoolSampler):
    """TPE over categorical parameters in a study in memory; each template has its own parameters.

    A draw that is invalid or taken costs no evaluation: it is repeated a few times, then the nearest free
    configuration of the same template is taken. Failures are reported as pruned without a value, which TPE ranks last;
    proposals without a result are running trials, which it avoids.
    """

    def __init__(self, candidates: Candidates, seed: int) -> None:
        import optuna

        super().__init__(candidates, seed)
        self._storage = optuna.storages.InMemoryStorage()
        self._study = _silent_study(self._storage, optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        self._running: dict[int, int] = {}  # the running trial of each row without a result
        self._distributions: dict[int, optuna.distributions.BaseDistribution] = {
            column: optuna.distributions.CategoricalDistribution(tuple(range(len(axis.choices))))
            for column, axis in enumerate(candidates.axes)
        }
        self._template = optuna.distributions.CategoricalDistribution(tuple(range(len(candidates.names))))

    @cached_property
    def _columns(self) -> list[list[int]]:
        """For each template, the parameters it has."""
        present = [self.candidates.choices[self.candidates.groups == group][:1] for group in range(self._groups)]
        return [[column for column in range(rows.shape[1]) if np.any(rows[:, column] != ABSENT)] for rows in present]

    @property
    def _groups(self) -> int:
        return len(self.candidates.names)

    def choose(self) -> int:
        for (group, row), _ in zip(self._draws(), range(RETRIES), strict=False):
            index = self.candidates.find(row, group)
            if index is not None and not self.taken[index]:
                return index
        return self.candidates.nearest(row, self.unseen())

    def _draws(self) -> Iterator[tuple[int, Rows]]:
        import optuna

        sampler, name = self._study.sampler, self._study.study_name
        # A study object caches the trials it first read; another one on the same storage sees the current ones.
        study = optuna.load_study(study_name=name, storage=self._storage)
        trial = optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING)
        trial.number = len(study.get_trials(deepcopy=False))
        while True:
            row: Rows = np.full(len(self.candidates.axes), ABSENT, dtype=np.uint8)
            group = sampler.sample_independent(study, trial, TEMPLATE, self._template) if self._groups > 1 else 0
            for column in self._columns[group]:
                axis, distribution = self.candidates.axes[column].name, self._distributions[column]
                row[column] = sampler.sample_independent(study, trial, axis, distribution)
            yield group, row

    def _give(self, rows: list[int]) -> list[int]:
        import optuna

        for row in super()._give(rows):
            self._running[row] = len(self._study.get_trials(deepcopy=False))
            self._add(row, state=optuna.trial.TrialState.RUNNING)
        return rows

    def skip(self, index: int) -> None:
        super().skip(index)
        self._end(index)

    def learn(self, index: int, seconds: float | None, noise: float, pruned: bool) -> None:
        import optuna

        self._end(index)
        complete = seconds is not None and not pruned
        self._add(
            index,
            state=optuna.trial.TrialState.COMPLETE if complete else optuna.trial.TrialState.PRUNED,
            value=seconds if complete else None,
            intermediate_values={1: seconds} if pruned and seconds is not None else {},
        )

    def _end(self, index: int) -> None:
        """Discard a row's running trial; another trial records its result."""
        import optuna

        if (number := self._running.pop(index, None)) is not None:
            self._study.tell(number, state=optuna.trial.TrialState.FAIL)

    def _add(self, index: int, **told: Any) -> None:
        import optuna

        group, row = int(self.candidates.groups[index]), self.candidates.choices[index]
        params = {self.candidates.axes[column].name: int(row[column]) for column in self._columns[group]}
        distributions = {
            self.candidates.axes[column].name: self._distributions[column] for column in self._columns[group]
        }
        if self._groups > 1:
            params[TEMPLATE], distributions[TEMPLATE] = group, self._template
        self._study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, **told))


def _silent_study(storage: optuna.storages.BaseStorage, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    """Create a study in memory without Optuna's log line about it."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(storage=storage, sampler=sampler)
    finally:
        optuna.logging.set_verbosity(level)
