"""What is needed to run a stored result again: the template it was made with, and how its study measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from tuner.bench.protocol import BenchSpec, Protocol
from tuner.errors import UsageError
from tuner.kernels.loading import load_template
from tuner.kernels.template import KernelTemplate
from tuner.problems.accuracy import Precision
from tuner.results import Result
from tuner.storage import StudyView


def template_of(result: Result, templates: tuple[KernelTemplate, ...], study: StudyView) -> KernelTemplate:
    """Return the template of a result: one that the user names again, else the study's own, else a built-in one.

    Raises:
        UsageError: It is none of these, its file is gone, or it has other parameters now.
    """
    name = result.configuration.template
    file = dict(study.key.sources).get(name, "")
    found = next((each for each in templates if each.name == name and (each.home or not file)), None)
    if found is None and not file:
        raise UsageError(f"template '{name}' is not among the built-in ones; give its file with --template PATH")
    if found is None:
        found = _remembered(name, Path(file), study)
    found.configuration(result.configuration.as_dict())
    return found


def _remembered(name: str, file: Path, study: StudyView) -> KernelTemplate:
    if not os.path.exists(file):
        raise UsageError(
            f"study '{study.name}': its template's file {file} is gone; put it back, or give it with --template PATH"
        )
    found = load_template(file)
    if found.name != name:
        raise UsageError(f"study '{study.name}': {file} now declares the template '{found.name}', not '{name}'")
    return found


def spec_of(study: StudyView) -> BenchSpec:
    """Return how a study's trials were measured."""
    return BenchSpec(
        device=study.environment.device,
        problem=study.problem,
        precision=cast(Precision, study.key.precision),
        protocol=Protocol(warm_l2=study.key.protocol.endswith("-warm")),
    )
