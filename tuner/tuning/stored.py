"""The report of a run that ended before its search began: what earlier runs left in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tuner.errors import TunerError
from tuner.kernels.configuration import Configuration
from tuner.kernels.loading import builtin_names
from tuner.results import Result, StudyKey
from tuner.storage import Champion, Store, StudyHandle, StudyView, view_of
from tuner.tuning.finals import FINALISTS
from tuner.tuning.options import RunOptions
from tuner.tuning.progress import Costs, Progress, RankedResult, Report


def ranked_results(
    champion: Champion | None,
    results: Iterable[Result],
    number_of: Callable[[Configuration], int | None],
    tied: frozenset[str] = frozenset(),
) -> tuple[RankedResult, ...]:
    """Return a study's winner, if there is one, and the fastest others; those whose keys are ``tied`` marked.

    Args:
        number_of: Returns the number of a configuration's trial.
    """
    best = champion.result.configuration.key if champion else ""
    others = [each for each in results if each.ok and each.configuration.key != best]
    others = sorted(others, key=lambda result: result.seconds)[: FINALISTS - bool(champion)]
    numbered = [(each, number_of(each.configuration)) for each in others]
    rest = tuple(
        RankedResult(result=each, number=number, tied=each.configuration.key in tied) for each, number in numbered
    )
    if champion is None:
        return rest
    return (RankedResult(result=champion.result, number=champion.trial, winner=True, tied=best in tied), *rest)


def interrupted_early(options: RunOptions) -> Report | None:
    """Report on a run that was interrupted while it prepared; None where the store has no such study yet."""
    try:
        with Store.open(options.storage, create=False) as store:
            handles = (store.find_study(each.name) for each in store.studies())
            handle = next((each for each in handles if _is_of(each, options)), None)
            return None if handle is None else _report(view_of(handle))
    except TunerError:
        return None


def _report(view: StudyView) -> Report:
    results = tuple(view.results.values())
    return Report(
        progress=_progress(view),
        reason="interrupted",
        best=ranked_results(view.winner, results, view.number_of),
        baselines=(),
        failed=tuple(each for each in results if not each.ok),
        costs=Costs(),
    )


def _progress(view: StudyView) -> Progress:
    """Return the progress of a run of a stored study that has not begun."""
    return Progress(
        study=view.name,
        problem=view.problem,
        environment=view.environment,
        space=0,
        trials=None,
        seconds=None,
        precision=view.key.precision,
        known=len(view.results),
        naive=view.yardstick.naive,
        best=view.winner.result if view.winner else None,
    )


def _is_of(handle: StudyHandle, options: RunOptions) -> bool:
    key = handle.key
    return (
        (key.problem, key.shape[0], key.precision) == (options.problem.name, options.problem.rows, options.precision)
        and handle.environment.device == options.device
        and _has_templates(key, options)
    )


def _has_templates(key: StudyKey, options: RunOptions) -> bool:
    """Whether a study is of the requested templates; some of these may have had no valid configuration."""
    named, built_in = {each.name for each in options.templates}, set(builtin_names(options.problem.kind))
    own = {each.name: str(each.home.path) for each in options.templates if each.home}
    files = {name: own.get(name, "") for name in named if name in own or name in built_in}
    expected = files if own or named != built_in else {}
    return (
        named.issuperset(key.templates) and bool(key.sources) == bool(expected) and set(key.sources) <= expected.items()
    )
