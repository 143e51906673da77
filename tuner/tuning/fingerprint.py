"""Keys of results and studies, equal only if everything that could change a measurement is equal."""

from __future__ import annotations

import hashlib
import json

from tuner.bench.protocol import BenchFacts, BenchSpec
from tuner.errors import Infeasible
from tuner.kernels.configuration import Configuration
from tuner.kernels.loading import builtin_names
from tuner.kernels.render import prelude
from tuner.kernels.space import Space
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem
from tuner.results import StudyKey


def fingerprint(template: KernelTemplate, configuration: Configuration, spec: BenchSpec, facts: BenchFacts) -> str:
    """Hash source with its prelude, values, geometry, compiler, device, driver, problem, data, precision and protocol.

    Values are hashed by name, so that adding or reordering a parameter's choices leaves the other results valid.
    """
    return _hash(
        [template.source, sorted(configuration.values), *(["static memory"] if template.static_memory else [])],
        _geometry(template, configuration, spec.problem),
        _surroundings(spec, facts),
    )


def _geometry(template: KernelTemplate, configuration: Configuration, problem: Problem) -> list[object]:
    try:
        launch = template.launch_of(configuration, problem)
        sizes = {name: number for name, (number, _) in template.sizes_of(configuration, problem).items()}
    except Infeasible as error:
        return [str(error)]
    return [launch.grid, launch.block, launch.shared_bytes, *([sizes] if sizes else [])]


def study_key(space: Space, spec: BenchSpec, facts: BenchFacts, heuristics: bool = True) -> StudyKey:
    """Return the identity of a study: its space, its templates' sources, and the conditions of its measurements."""
    return StudyKey(
        kind=spec.problem.kind,
        problem=spec.problem.name,
        shape=tuple(spec.problem.sizes.values()),
        device_kind=facts.environment.kind,
        device_model=facts.environment.model,
        precision=spec.precision,
        protocol=spec.protocol.version,
        space_digest=_hash(space.digest, _sources(space), _surroundings(spec, facts)),
        templates=tuple(part.template.name for part in space.parts),
        sources=_files(space),
        heuristics=heuristics,
    )


def _files(space: Space) -> tuple[tuple[str, str], ...]:
    """Return each template's name and the user's file for it; nothing if all built-in templates are used by default."""
    named, built_in = [part.template for part in space.parts], set(builtin_names(space.problem.kind))
    given = {each.name for each in named} | {name for name, _ in space.left_out}
    if given == built_in and not any(each.home for each in named):
        return ()
    return tuple(
        (each.name, str(each.home.path) if each.home else "") for each in named if each.home or each.name in built_in
    )


def _sources(space: Space) -> list[str]:
    """Return the text of each template; for a user's own also its Python, as an edited launch invalidates results."""
    templates = [part.template for part in space.parts]
    return [each.source for each in templates] + [each.home.text for each in templates if each.home]


def _surroundings(spec: BenchSpec, facts: BenchFacts) -> list[object]:
    machine = facts.environment
    return [
        prelude(facts.limits.dialect),
        [machine.kind, machine.model, machine.driver, machine.toolkit, machine.arch],
        _identity(spec.problem),
        [spec.precision, spec.protocol.version, facts.data_digest],
    ]


def _identity(problem: Problem) -> list[object]:
    """Return what distinguishes problems; for a convolution only its sizes, so that old results can still be reused."""
    return [*([problem.kind] if problem.kind != "conv" else []), *problem.sizes.values()]


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
