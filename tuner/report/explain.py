"""Explain why the fast configurations of a study are fast: which parameters matter, and how well a model predicts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.errors import UsageError
from tuner.kernels.parameters import Choice
from tuner.report.text_plot import Cells, Marks, text_plot
from tuner.results import Result
from tuner.search.arrays import Floats, Rows
from tuner.search.candidates import ABSENT, Axis, Candidates
from tuner.search.model import Model
from tuner.search.observations import Observations

FEWEST = 10  # fewest timed trials of the best one's template
TEMPLATE = "template"
WIDTH, HEIGHT = 48, 14  # of the plot, in characters

Choices = Mapping[str, Sequence[Choice]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """The influence of one parameter.

    Attributes:
        importance: Its share of what sets the fastest tenth apart, by PED-ANOVA; None for the template.
        best: Its value in the fastest trial.
        other: Its value in the fastest trial with a different value; None if there is none.
        slower: How much slower that trial is: 0.1 is 10%.
    """

    name: str
    importance: float | None
    best: Choice
    other: Choice | None
    slower: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A study explained.

    Attributes:
        trials: Timed trials used, of the template of the fastest one.
        influences: The template first if there are several, then parameters, the most important first.
        measured, predicted: Milliseconds; each predicted from all the other trials.
    """

    template: str
    trials: int
    influences: tuple[Influence, ...]
    measured: Floats
    predicted: Floats

    @property
    def rank_correlation(self) -> float:
        from scipy.stats import spearmanr

        if np.ptp(self.measured) == 0 or np.ptp(self.predicted) == 0:
            return 0.0
        return float(spearmanr(self.measured, self.predicted).statistic)

    @property
    def median_error(self) -> float:
        """Of the predictions, relative to the measurements."""
        return float(np.median(np.abs(self.predicted / self.measured - 1)))


def explain(study: str, results: Sequence[Result], choices: Choices) -> Explanation:
    """Explain a study by its timed trials.

    Args:
        choices: Every parameter's choices, ``template`` among them.

    Raises:
        UsageError: Too few timed trials.
    """
    timed = [result for result in results if result.ok]
    fastest = min(timed, key=lambda result: result.seconds, default=None)
    template = fastest.configuration.template if fastest else ""
    ours = [result for result in timed if result.configuration.template == template]
    if fastest is None or len(ours) < FEWEST:
        raise UsageError(
            f"study '{study}': {len(ours)} timed trials of one template explain nothing; at least {FEWEST} are needed, "
            "so run it on"
        )
    shares = _importances(ours, choices)
    names = sorted(shares, key=lambda name: -shares[name])
    several = len({result.configuration.template for result in timed}) > 1
    influences = [_influence(name, shares[name], fastest, ours) for name in names]
    if several:
        influences.insert(0, _influence(TEMPLATE, None, fastest, timed))
    measured, predicted = _predictions(timed, choices)
    return Explanation(
        template=template, trials=len(ours), influences=tuple(influences), measured=measured, predicted=predicted
    )


def _given(result: Result) -> dict[str, Choice]:
    return {TEMPLATE: result.configuration.template, **result.configuration.as_dict()}


def _influence(name: str, importance: float | None, fastest: Result, results: Sequence[Result]) -> Influence:
    best = _given(fastest)[name]
    others = [result for result in results if _given(result).get(name) != best]
    other = min(others, key=lambda result: result.seconds, default=None)
    return Influence(
        name=name,
        importance=importance,
        best=best,
        other=None if other is None else _given(other).get(name),
        slower=None if other is None else other.seconds / fastest.seconds - 1,
    )


def _importances(results: Sequence[Result], choices: Choices) -> dict[str, float]:
    """Return PED-ANOVA's importance of each parameter of one template that took more than one value.

    Source:
        Watanabe, Bansal, Hutter, "PED-ANOVA: efficiently quantifying hyperparameter importance in arbitrary
        subspaces", IJCAI 2023; Optuna's implementation.
    """
    import optuna
    from optuna.distributions import CategoricalDistribution

    names = [name for name, _ in results[0].configuration.values]
    varied = [name for name in names if len({_given(result)[name] for result in results}) > 1]
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study()
        space: dict[str, Any] = {name: CategoricalDistribution(tuple(choices[name])) for name in varied}
        for result in results:
            given = {name: _given(result)[name] for name in varied}
            study.add_trial(optuna.trial.create_trial(params=given, distributions=space, value=result.seconds))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an experimental feature, and of equal times without a fastest tenth
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            found = optuna.importance.get_param_importances(study, evaluator=evaluator) if varied else {}
    finally:
        optuna.logging.set_verbosity(level)
    return {name: float(share) for name, share in found.items()}


def _predictions(results: Sequence[Result], choices: Choices) -> tuple[Floats, Floats]:
    """Return milliseconds as measured, and as the model expects each from all the others."""
    measured = [result.measurement for result in results if result.measurement]
    known = Observations.of(
        rows=np.arange(len(measured)),
        values=np.log([each.median for each in measured]),
        variances=np.array([(each.spread / 1.96) ** 2 + 0.01 * each.pruned for each in measured]),
    )
    model = Model(_candidates(results, choices), known)
    return 1e3 * np.exp(model.known.values), 1e3 * np.exp(model.left_out())


def _candidates(results: Sequence[Result], choices: Choices) -> Candidates:
    """Return the trials alone as a table of candidates: a row for each."""
    axes = tuple(Axis(name, tuple(values)) for name, values in choices.items() if name != TEMPLATE)
    names = tuple(dict.fromkeys(result.configuration.template for result in results))
    rows: Rows = np.full((len(results), len(axes)), ABSENT, dtype=np.uint8)
    for row, result in enumerate(results):
        given = result.configuration.as_dict()
        for column, axis in enumerate(axes):
            if axis.name in given:
                rows[row, column] = axis.choices.index(given[axis.name])
    groups = np.array([names.index(result.configuration.template) for result in results], dtype=np.uint8)
    return Candidates(axes=axes, choices=rows, groups=groups, names=names)


def scatter(explanation: Explanation, columns: int = 80) -> str:
    """Draw predicted over measured milliseconds, both logarithmic; ``.`` is where they are equal."""
    width = min(WIDTH, columns - 11)
    both = np.log(np.concatenate([explanation.measured, explanation.predicted]))
    low, reach = both.min(), max(float(np.ptp(both)), 1e-9)

    def cells(values: Floats, size: int) -> Cells:
        places: Floats = np.rint((np.log(values) - low) / reach * (size - 1))
        return places.astype(np.intp)

    across = np.arange(width)
    equal = Marks(mark=".", columns=across, rows=np.rint(across * (HEIGHT - 1) / (width - 1)).astype(int))
    trials = Marks(mark="o", columns=cells(explanation.measured, width), rows=cells(explanation.predicted, HEIGHT))
    ends = [f"{np.exp(low + reach):9.4g}", *[" " * 9] * (HEIGHT - 2), f"{np.exp(low):9.4g}"]
    foot = f"{'':11}{np.exp(low):<9.4g}{'measured ms':^{width - 18}}{np.exp(low + reach):>9.4g}"
    return "\n".join(["predicted ms", *text_plot([equal, trials], width, ends), foot])
