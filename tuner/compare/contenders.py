"""Our contenders: the best verified configuration of the store, and the baselines to beat."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.compare.options import CompareOptions
from tuner.errors import NoWinner, TunerError, UsageError
from tuner.kernels.configuration import Configuration
from tuner.kernels.limits import DeviceLimits
from tuner.kernels.loading import builtin_templates
from tuner.kernels.template import KernelTemplate
from tuner.problems.lookup import find_problem
from tuner.problems.problem import Problem
from tuner.results import Environment, Result, StudyKey
from tuner.storage import Store, StudyHandle, StudyView, view_of
from tuner.storage.commands import storage_option
from tuner.storage.dashboard_note import run_command
from tuner.storage.location import find_location
from tuner.tuning.stored_result import template_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyWinner:
    """The verified winner of a study."""

    study: str
    trial: int
    model: str
    result: Result
    template: KernelTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFilter:
    """Selects studies of a problem.

    Attributes:
        device: A resolved name.
        has_batch: Only studies of the problem's own batch; else any batch fits.
        precision: None: any precision fits.
    """

    problem: Problem
    device: str
    has_batch: bool
    precision: str | None

    def fits(self, key: StudyKey) -> bool:
        sizes = tuple(self.problem.sizes.values())
        return (
            (key.kind, key.problem) == (self.problem.kind, self.problem.name)
            and key.shape[1:] == sizes[1:]
            and (not self.has_batch or key.shape == sizes)
            and self.precision in (None, key.precision)
            and key.device_kind == _kind(self.device, key.device_kind)
        )


def study_of_problem(text: str, storage: str, studies: StudyFilter) -> StudyHandle | None:
    """Return the study that a problem's name stands for in every command, of those that fit; None if there is none.

    Raises:
        UsageError, StorageError: The store cannot be read.
    """
    path = find_location(storage).path
    if path is not None and not path.exists():
        return None
    with Store.open(storage, create=False) as store:
        there = any(studies.fits(summary.key) for summary in store.studies())
        return store.find_study(text, fits=studies.fits) if there else None


def study_named(text: str, storage: str) -> StudyHandle:
    """Find a study by any name that ``tune show`` takes.

    Raises:
        UsageError: It is neither the name of a study nor, while there is no store, of a problem.
        StorageError: The store cannot be read.
    """
    path = find_location(storage).path
    if path is not None and not path.exists():
        find_problem(text)
    with Store.open(storage, create=False) as store:
        return store.find_study(text)


def best_found(asked: CompareOptions) -> list[StudyWinner]:
    """Return the verified winners of every study of this problem, precision and kind of device, the newest first.

    Every other command takes a problem's name for its newest study.

    Raises:
        NoWinner: There is none; names the command that makes one.
        UsageError, StorageError: The store cannot be read.
    """
    studies = StudyFilter(problem=asked.problem, device=asked.device, has_batch=True, precision=asked.precision)
    found: list[StudyWinner] = []
    without: list[str] = []
    path = find_location(asked.storage).path
    if path is None or path.exists():
        with Store.open(asked.storage, create=False) as store:
            for summary in sorted(store.studies(), key=lambda each: each.created, reverse=True):
                if asked.study in (None, summary.name) and studies.fits(summary.key):
                    view = view_of(store.find_study(summary.name))
                    found += _winner(view, asked)
                    if view.winner is None:
                        without.append(f"study '{view.name}': {view.why_no_winner}")
    if not found:
        raise NoWinner(next(iter(without), "") or _none_at_all(asked))
    return found


def _none_at_all(asked: CompareOptions) -> str:
    wanted, name = run_command(asked.problem, asked.device, asked.precision), asked.study or asked.problem.name
    where = find_location(asked.storage)
    return f"{where.shown} has no verified winner of {name} to compare; {wanted}{storage_option(where)} makes one"


def _kind(device: str, stored: str) -> str:
    """Return the kind of device that a name stands for; ``opencl:N`` may be either, so the stored kind is taken."""
    return "cuda" if device.startswith("cuda") else "cpu" if device == "cpu" else stored


def _winner(study: StudyView, asked: CompareOptions) -> list[StudyWinner]:
    """Return a study's winner; none if its template is not here, unless this very study was asked for."""
    champion = study.winner
    if champion is None:
        return []
    try:
        template = template_of(champion.result, asked.templates, study)
    except UsageError:
        if asked.study:
            raise
        return []
    if not _fits(champion.result.configuration, template):
        return []
    return [
        StudyWinner(
            study=study.name,
            trial=champion.trial,
            model=study.key.device_model,
            result=champion.result,
            template=template,
        )
    ]


def _fits(configuration: Configuration, template: KernelTemplate) -> bool:
    """Whether a stored configuration is still one of the template's."""
    choices = {parameter.name: parameter.choices for parameter in template.parameters}
    given = configuration.as_dict()
    return (
        template.name == configuration.template
        and given.keys() == choices.keys()
        and all(value in choices[name] for name, value in given.items())
    )


def winner_for(found: list[StudyWinner], environment: Environment) -> StudyWinner:
    """Return the first winner measured on this device model, else the first of all."""
    return next((each for each in found if each.model == environment.model), found[0])


def baseline(name: str, problem: Problem, limits: DeviceLimits) -> tuple[KernelTemplate, Configuration]:
    """Return a named baseline of the built-in templates.

    Raises:
        TunerError: It is not valid for this problem and device; says why.
    """
    for template in builtin_templates(problem.kind).values():
        for each in template.baselines:
            if each.name == name:
                configuration = template.configuration(each.values)
                if broken := template.violated(configuration, problem, limits):
                    raise TunerError(f"not valid for this {problem.noun}: {broken.reason}")
                return template, configuration
    raise TunerError(f"no template has a baseline '{name}'")
