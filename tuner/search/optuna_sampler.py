"""Our samplers as Optuna's: a study over the enumerated configurations, never invalid and never twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from tuner.errors import UsageError
from tuner.search.arrays import Rows
from tuner.search.candidates import ABSENT, Candidates
from tuner.search.samplers.factory import make_sampler

TEMPLATE: Final = "template"


class TunerSampler(optuna.samplers.BaseSampler):
    """Serve an Optuna study of one objective to be minimised, such as a time, from any of our samplers.

    Every parameter is categorical, with the choices of :attr:`search_space`; suggest exactly those. With several
    templates there is a parameter ``template``, and a trial has only the parameters of its template. Trials that are
    in the study already, of this or another process, are learnt from and not proposed again. After the last
    configuration the study is stopped.
    """

    def __init__(self, candidates: Candidates, seed: int = 0, name: str = "surrogate") -> None:
        self._candidates = candidates
        self._sampler = make_sampler(name, candidates, seed)
        self._rows: dict[int, int] = {}  # trial number -> row, for trials that are still running
        self._read = 0  # trials below this number are finished and learnt
        self._told: set[int] = set()
        self.search_space: dict[str, BaseDistribution] = {
            axis.name: CategoricalDistribution(axis.choices) for axis in candidates.axes
        }
        if len(candidates.names) > 1:
            self.search_space[TEMPLATE] = CategoricalDistribution(candidates.names)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.search_space

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the parameters of one valid configuration that no trial has had.

        Raises:
            UsageError: The study has several objectives or maximises, or all configurations have been proposed.
        """
        if study.directions != [optuna.study.StudyDirection.MINIMIZE]:
            raise UsageError(f"study {study.study_name}: this sampler minimises one objective, such as a time")
        self._catch_up(study, trial.number)
        rows = self._sampler.propose(1)
        if not rows:
            raise UsageError(f"study {study.study_name}: all {len(self._candidates)} configurations have been proposed")
        self._rows[trial.number] = rows[0]
        return self.params(rows[0])

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        raise UsageError(f"parameter {param_name}: not in the enumerated space of this trial's template")

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        if (row := self._rows.pop(trial.number, None)) is not None:
            self._told.add(trial.number)
            self._tell(row, state, values[0] if values else None, trial.intermediate_values)
        if not self._left():
            self._stop(study)

    def params(self, row: int) -> dict[str, Any]:
        """Return one configuration as a trial's parameters."""
        chosen = zip(self._candidates.axes, self._candidates.choices[row], strict=True)
        params: dict[str, Any] = {axis.name: axis.choices[choice] for axis, choice in chosen if choice != ABSENT}
        if len(self._candidates.names) > 1:
            params[TEMPLATE] = self._candidates.names[self._candidates.groups[row]]
        return params

    def row(self, params: Mapping[str, Any]) -> int | None:
        """Return the configuration with these parameters, or None when it is not in the space."""
        choices: Rows = np.full(len(self._candidates.axes), ABSENT, dtype=np.uint8)
        for column, axis in enumerate(self._candidates.axes):
            if axis.name in params:
                if params[axis.name] not in axis.choices:
                    return None
                choices[column] = axis.choices.index(params[axis.name])
        group = params.get(TEMPLATE, self._candidates.names[0])
        if group not in self._candidates.names:
            return None
        return self._candidates.find(choices, self._candidates.names.index(group))

    def _catch_up(self, study: optuna.Study, before: int) -> None:
        """Learn from trials that this object did not run itself."""
        for trial in study.get_trials(deepcopy=False)[self._read : before]:
            if trial.number in self._told or trial.number in self._rows:
                continue
            row, finished = self.row(trial.params), trial.state.is_finished()
            if finished:
                self._told.add(trial.number)
            if row is None:
                continue
            if finished:
                self._tell(row, trial.state, trial.value, trial.intermediate_values)
            else:
                self._sampler.skip(row)
        while self._read in self._told:
            self._told.discard(self._read)
            self._read += 1

    def _tell(self, row: int, state: TrialState, value: float | None, reports: Mapping[int, float]) -> None:
        if state == TrialState.PRUNED and reports:
            self._sampler.observe(row, reports[max(reports)], pruned=True)
        else:
            self._sampler.observe(row, value if state == TrialState.COMPLETE else None)

    def _left(self) -> int:
        return getattr(self._sampler, "left", 1)

    @staticmethod
    def _stop(study: optuna.Study) -> None:
        try:
            study.stop()
        except RuntimeError:
            return  # ask-and-tell has nothing to stop: the next ask raises that the space is exhausted
