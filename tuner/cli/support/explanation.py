"""Output of an explained study: a table with a plot, Markdown for the dashboard, plain data."""

from __future__ import annotations

from typing import Any

from tuner.cli.support.folding import echo, width
from tuner.cli.support.text import table, times
from tuner.errors import UsageError
from tuner.report.explain import Explanation, Influence, explain, scatter
from tuner.storage import Store, StudyView, view_of

COLUMNS = ("parameter", "importance", "fastest", "else", "slower")


def print_explanation(explained: Explanation) -> None:
    """Print the influences and the plot, 80 columns wide."""
    title = f"what matters, from {explained.trials:,} trials of {explained.template}"
    table(title, COLUMNS, [_cells(each) for each in explained.influences], left=("parameter", "fastest", "else"))
    echo(f"\n{_accuracy(explained)}\n{scatter(explained, width())}\n")


def _cells(influence: Influence) -> tuple[str, ...]:
    return (
        influence.name,
        "-" if influence.importance is None else f"{influence.importance:.0%}",
        str(influence.best),
        "-" if influence.other is None else str(influence.other),
        _slower(influence.slower),
    )


def _slower(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}" if share < 1 else times(1 + share)


def _accuracy(explained: Explanation) -> str:
    return (
        f"each trial as a model predicts it from the {len(explained.measured) - 1:,} others: "
        f"rank correlation {explained.rank_correlation:.2f},\nmedian error {explained.median_error:.1%}"
    )


def explanation_markdown(explained: Explanation) -> str:
    """Return the part of the study's note that the dashboard shows."""
    rows = [f"| {' | '.join(_cells(each))} |" for each in explained.influences]
    return "\n".join(
        (
            f"## What matters, from {explained.trials:,} trials of {explained.template}",
            "",
            "| parameter | importance | in the fastest | in the fastest with another | which is slower by |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "Importance is PED-ANOVA's share of what sets the fastest tenth apart.",
            "",
            _accuracy(explained),
            "",
            "```text",
            scatter(explained),
            "```",
            "",
        )
    )


def explanation_json(explained: Explanation) -> dict[str, Any]:
    """Return the explanation as plain data."""
    return {
        "template": explained.template,
        "trials": explained.trials,
        "parameters": [
            {
                "name": each.name,
                "importance": each.importance,
                "best": each.best,
                "other": each.other,
                "slower": each.slower,
            }
            for each in explained.influences
        ],
        "rank_correlation": explained.rank_correlation,
        "median_error": explained.median_error,
        "measured_ms": explained.measured.tolist(),
        "predicted_ms": explained.predicted.tolist(),
    }


def explanation_part(explained: Explanation | None) -> dict[str, Any]:
    """Return the part that an explanation adds to a JSON report; empty without one."""
    return {"explain": explanation_json(explained)} if explained else {}


def explain_study(study: str, storage: str) -> Explanation | None:
    """Explain a study and write that into its note, for the dashboard; None, and print why, with too few trials."""
    with Store.open(storage, create=False) as store:
        handle = store.find_study(study)
        explained = explain_view(view_of(handle))
        if explained and not store.database.sealed:
            handle.note(more=explanation_markdown(explained))
    return explained


def explain_view(study: StudyView) -> Explanation | None:
    """Explain a study; with too few trials print why and return None, since that is not a usage error."""
    try:
        return explain(study.name, list(study.results.values()), study.choices)
    except UsageError as error:
        echo(f"nothing explained: {error}", err=True)
        return None
