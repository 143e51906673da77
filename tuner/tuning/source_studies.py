"""Whose results a run begins with: the same problem elsewhere, of another batch or precision, or a sibling problem."""

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

LOOKED_AT = 3  # studies that ``auto`` reads at most
GUIDED = ("surrogate", "tpe")  # samplers that ``auto`` serves: whoever asks for another wants that one's own way


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


def find_donor(store: Store, key: StudyKey, space: Space, options: RunOptions) -> SourceStudy | None:
    """Return the donor that ``--warm-start`` names, the nearest there is for ``auto``, or None.

    Args:
        key: Of the study that begins; it need not be stored yet, so that a donor of no use leaves no empty study.

    Raises:
        UsageError: The named study is not in the store, is this very study, or has nothing to give.
    """
    if options.warm_start == OFF:
        return None
    if options.warm_start != AUTO:
        return _named(store, key, space, options.warm_start)
    if options.sampler not in GUIDED:
        return None
    useful = [each for each in store.studies() if each.key != key and _shares(each, space)]
    for summary in sorted(useful, key=lambda each: _distance(each, key))[:LOOKED_AT]:
        donor = _donor(store.find_study(summary.name), space)
        if len(donor.known) >= MIN_SHARED:
            return donor
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
    donor = _donor(study, space)
    if not donor.results:
        raise UsageError(f"--warm-start '{name}': it has no results yet; tune it first, or name another, or {OFF}")
    if len(donor.known) < MIN_SHARED:
        raise UsageError(
            f"--warm-start '{name}': {len(donor.known)} of its {donor.results} results are of configurations here; "
            f"at least {MIN_SHARED} are needed, so name another, or {OFF}"
        )
    return donor


def _shares(summary: StudySummary, space: Space) -> bool:
    return summary.ok >= MIN_SHARED and any(part.template.name in summary.key.templates for part in space.parts)


def _distance(summary: StudySummary, ours: StudyKey) -> tuple[bool, bool, bool, bool, int]:
    """Order donors: the same problem, the same kind of device, the same model, the same precision, the most results."""
    theirs = summary.key
    return (
        theirs.shape[1:] != ours.shape[1:],
        theirs.device_kind != ours.device_kind,
        theirs.device_model != ours.device_model,
        theirs.precision != ours.precision,
        -summary.ok,
    )


def _donor(study: StudyHandle, space: Space) -> SourceStudy:
    results, here = study.results(), dict[str, Result]()
    for result in results:
        configuration = _completed(result.configuration, space)
        if configuration is not None:
            here.setdefault(configuration.key, replace(result, configuration=configuration))
    return SourceStudy(study=study.name, known=known_of(space, here), results=len(results))


def _completed(configuration: Configuration, space: Space) -> Configuration | None:
    """Return a donor's configuration with the first choices of parameters that its template did not have yet.

    None where a parameter or a choice is no longer there. Only as a donor may the two count as one: a result is the
    result of its own source alone.
    """
    template = next((part.template for part in space.parts if part.template.name == configuration.template), None)
    if template is None:
        return None
    try:
        return template.configuration(configuration.as_dict())
    except UsageError:
        return None
