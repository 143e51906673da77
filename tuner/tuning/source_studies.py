"""Choose the study whose results a run starts from: the same problem elsewhere, or a similar one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.errors import UsageError
from tuner.kernels.configuration import Configuration
from tuner.kernels.space import Space
from tuner.results import Result, StudyKey
from tuner.search.observations import Observations
from tuner.search.translate import MIN_SHARED
from tuner.storage import Store, StudyHandle, StudySummary
from tuner.tuning.gain import known_of
from tuner.tuning.options import AUTO, OFF, RunOptions

LOOKED_AT = 3  # most studies that ``auto`` reads
GUIDED = ("surrogate", "tpe")  # samplers that accept prior results


@dataclass(frozen=True, slots=True)
class SourceStudy:
    """Results of another study, by their rows in this run's space."""

    study: str
    known: Observations
    results: int

    def __str__(self) -> str:
        return (
            f"warm start from '{self.study}': {len(self.known):,} of its {self.results:,} results are of "
            "configurations here; trusted as far as it proves right"
        )


def find_source(store: Store, key: StudyKey, space: Space, options: RunOptions) -> SourceStudy | None:
    """Return the source study that ``--warm-start`` names, the nearest one for ``auto``, or None.

    Args:
        key: The new study's key; it need not be stored yet, so a useless source leaves no empty study behind.

    Raises:
        UsageError: The named study is not in the store, is this very study, or has too few usable results.
    """
    if options.warm_start == OFF:
        return None
    if options.warm_start != AUTO:
        return _named(store, key, space, options.warm_start)
    if options.sampler not in GUIDED:
        return None
    useful = [each for each in store.studies() if each.key != key and _shares(each, space)]
    for summary in sorted(useful, key=lambda each: _distance(each, key))[:LOOKED_AT]:
        source = _source(store.find_study(summary.name), space)
        if len(source.known) >= MIN_SHARED:
            return source
    return None


def _named(store: Store, key: StudyKey, space: Space, name: str) -> SourceStudy:
    study = store.find_study(name)
    if study.key == key:
        raise UsageError(f"--warm-start '{name}': this run continues that very study; name another one, or {OFF}")
    ours, theirs = {part.template.name for part in space.parts}, study.key.templates
    if not ours & set(theirs):
        raise UsageError(
            f"--warm-start '{name}': its templates are {', '.join(theirs)}, this run's {', '.join(sorted(ours))}; "
            f"name a study of one of these, or {OFF}"
        )
    source = _source(study, space)
    if not source.results:
        raise UsageError(f"--warm-start '{name}': it has no results yet; tune it first, or name another, or {OFF}")
    if len(source.known) < MIN_SHARED:
        raise UsageError(
            f"--warm-start '{name}': {len(source.known)} of its {source.results} results are of configurations here; "
            f"at least {MIN_SHARED} are needed, so name another, or {OFF}"
        )
    return source


def _shares(summary: StudySummary, space: Space) -> bool:
    return summary.ok >= MIN_SHARED and any(part.template.name in summary.key.templates for part in space.parts)


def _distance(summary: StudySummary, ours: StudyKey) -> tuple[bool, bool, bool, bool, int]:
    """Order source studies: same problem, same kind of device, same model, same precision, most results."""
    theirs = summary.key
    return (
        theirs.shape[1:] != ours.shape[1:],
        theirs.device_kind != ours.device_kind,
        theirs.device_model != ours.device_model,
        theirs.precision != ours.precision,
        -summary.ok,
    )


def _source(study: StudyHandle, space: Space) -> SourceStudy:
    results, here = study.results(), dict[str, Result]()
    for result in results:
        configuration = _completed(result.configuration, space)
        if configuration is not None:
            here.setdefault(configuration.key, replace(result, configuration=configuration))
    return SourceStudy(study=study.name, known=known_of(space, here), results=len(results))


def _completed(configuration: Configuration, space: Space) -> Configuration | None:
    """Return a source study's configuration, with first choices for parameters that were added since.

    None where a parameter or a choice has been removed. The two count as the same configuration only for a warm start:
    a stored result belongs to the template source that it was measured with.
    """
    template = next((part.template for part in space.parts if part.template.name == configuration.template), None)
    if template is None:
        return None
    try:
        return template.configuration(configuration.as_dict())
    except UsageError:
        return None
