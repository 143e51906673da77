"""Translate between the tuner's plain types and the rows of its tables."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import astuple

from sqlalchemy import Select, select

from tuner.errors import OUTCOMES, UsageError
from tuner.kernels.configuration import Configuration
from tuner.kernels.parameters import Choice
from tuner.kernels.renames import current_choices, current_columns, current_values, former_values
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem
from tuner.problems.registry import kind_of, problem_of
from tuner.results import Costs, Environment, Evaluation, Measurement, Resources, Result, StudyKey, Telemetry
from tuner.storage.schema import EnvironmentRow, FailureRow, ResultRow, SampleRow, StudyRow

Choices = dict[str, tuple[Choice, ...]]


def configuration_text(configuration: Configuration) -> str:
    return json.dumps(configuration.values, separators=(",", ":"))


def configuration_of(template: str, text: str) -> Configuration:
    values = current_values(template, dict(json.loads(text)))
    return Configuration(template=template, values=tuple(values.items()))


def keys_of(configuration: Configuration) -> tuple[str, ...]:
    """Return the keys that a configuration may have in a store: today's, and by its parameters' names before."""
    before = former_values(configuration.template, configuration.as_dict())
    former = Configuration(template=configuration.template, values=tuple(before.items()))
    return tuple(dict.fromkeys((configuration.key, former.key)))


def check_result(result: Result) -> None:
    """Refuse what must never be stored.

    Raises:
        UsageError: An unknown outcome, or ``ok`` without a finite measurement.
    """
    if result.outcome not in OUTCOMES:
        raise UsageError(f"result of {result.configuration}: outcome '{result.outcome}' is not among {OUTCOMES}")
    if result.outcome == "ok" and not (result.measurement and 0 < result.measurement.median < float("inf")):
        raise UsageError(f"result of {result.configuration}: ok without a measurement above 0 s; store its failure")


def result_columns(result: Result) -> dict[str, object]:
    """Return everything of ``result`` but its identity (study, trial, key), by column of ``ResultRow``."""
    return {
        "fingerprint": result.fingerprint,
        "baseline": result.baseline,
        "reused": result.reused,
        "settled": result.settled or None,
        "searched": result.searched,
        "started": result.started,
        "finished": time.time(),
        **_evaluation_columns(result.evaluation),
    }


def _evaluation_columns(evaluation: Evaluation) -> dict[str, object]:
    resources, costs = evaluation.resources, evaluation.costs
    return {
        "outcome": evaluation.outcome,
        "confirmed": evaluation.confirmed,
        "max_error": evaluation.max_error,
        "registers": resources.registers,
        "local_bytes": resources.local_bytes,
        "shared_bytes": resources.shared_bytes,
        "occupancy": resources.occupancy,
        "spill_bytes": resources.spill_bytes,
        "compile_seconds": costs.compile,
        "check_seconds": costs.check,
        "measure_seconds": costs.measure,
        **_measurement_columns(evaluation.measurement),
    }


def _measurement_columns(measurement: Measurement | None) -> dict[str, object]:
    timed = measurement if measurement and measurement.samples else None
    low, high = timed.interval if timed else (None, None)
    telemetry = measurement.telemetry if measurement else Telemetry()
    return {
        "median": timed.median if timed else None,
        "interval_low": low,
        "interval_high": high,
        "sample_count": len(timed.samples) if timed else 0,
        "pruned": bool(measurement and measurement.pruned),
        "canary": measurement.canary if measurement else None,
        "clock_mhz": telemetry.clock_mhz,
        "temperature_c": telemetry.temperature_c,
        "power_w": telemetry.power_w,
        "throttle": telemetry.throttle,
    }


def select_results() -> Select[ResultRow, str, str]:
    """Select what ``result_of`` takes: row, samples, failure text."""
    return (
        select(ResultRow, SampleRow.seconds, FailureRow.text)
        .outerjoin(SampleRow, SampleRow.result_id == ResultRow.id)
        .outerjoin(FailureRow, FailureRow.result_id == ResultRow.id)
    )


def result_of(row: ResultRow, samples: str | None, failure: str | None) -> Result:
    return Result(
        configuration=configuration_of(row.template, row.configuration),
        fingerprint=row.fingerprint,
        evaluation=_evaluation(row, samples, failure),
        baseline=row.baseline,
        reused=row.reused,
        settled=row.settled or 0.0,
        searched=row.searched,
        started=row.started,
    )


def _evaluation(row: ResultRow, samples: str | None, failure: str | None) -> Evaluation:
    return Evaluation(
        outcome=row.outcome,
        text=failure or "",
        measurement=_measurement(row, samples),
        resources=Resources(
            registers=row.registers,
            local_bytes=row.local_bytes,
            shared_bytes=row.shared_bytes,
            occupancy=row.occupancy,
            spill_bytes=row.spill_bytes,
        ),
        costs=Costs(compile=row.compile_seconds, check=row.check_seconds, measure=row.measure_seconds),
        max_error=row.max_error,
        confirmed=row.confirmed,
    )


def _measurement(row: ResultRow, samples: str | None) -> Measurement | None:
    if samples is None:
        return None
    telemetry = Telemetry(
        clock_mhz=row.clock_mhz, temperature_c=row.temperature_c, power_w=row.power_w, throttle=row.throttle
    )
    return Measurement(samples=tuple(json.loads(samples)), pruned=row.pruned, canary=row.canary, telemetry=telemetry)


def environment_row(environment: Environment) -> EnvironmentRow:
    values = astuple(environment)
    return EnvironmentRow(
        digest=environment_digest(environment),
        **dict(zip(_ENVIRONMENT, values, strict=True)),
    )


_ENVIRONMENT = tuple(Environment.__dataclass_fields__)


def environment_digest(environment: Environment) -> str:
    return hashlib.sha256(repr(astuple(environment)).encode()).hexdigest()


def environment_of(row: EnvironmentRow) -> Environment:
    return Environment(**{name: getattr(row, name) for name in _ENVIRONMENT})


def study_row(key: StudyKey, choices: Choices) -> StudyRow:
    return StudyRow(
        name=key.name, digest=key.digest, kind=key.kind, problem=key.problem, sizes=sizes_text(key),
        device_kind=key.device_kind, device_model=key.device_model, precision=key.precision, protocol=key.protocol,
        space_digest=key.space_digest, templates=json.dumps(key.templates), distributions=json.dumps(choices),
        sources=sources_text(key), heuristics=key.heuristics, created=time.time(),
    )  # fmt: skip


def sources_text(key: StudyKey) -> str | None:
    return json.dumps(key.sources) if key.sources else None


def key_of(row: StudyRow) -> StudyKey:
    return StudyKey(
        kind=row.kind,
        problem=row.problem,
        shape=shape_of(row),
        device_kind=row.device_kind,
        device_model=row.device_model,
        precision=row.precision,
        protocol=row.protocol,
        space_digest=row.space_digest,
        templates=tuple(json.loads(row.templates)),
        sources=tuple((name, path) for name, path in json.loads(row.sources or "[]")),
        heuristics=row.heuristics is not False,
    )


def sizes_text(key: StudyKey) -> str:
    return json.dumps(dict(zip(kind_of(key.kind).SIZES, key.shape, strict=True)))


def shape_of(row: StudyRow) -> tuple[int, ...]:
    """Return the problem's sizes, in its kind's order."""
    return tuple(json.loads(row.sizes).values())


def problem_of_key(key: StudyKey) -> Problem:
    return problem_of(key.kind, key.problem, dict(zip(kind_of(key.kind).SIZES, key.shape, strict=True)))


def choices_of_templates(templates: tuple[KernelTemplate, ...]) -> Choices:
    """Return each parameter's choices, the union over all templates that have it, and ``template`` itself."""
    merged: dict[str, dict[Choice, None]] = {"template": {template.name: None for template in templates}}
    for template in templates:
        for parameter in template.parameters:
            merged.setdefault(parameter.name, {}).update(dict.fromkeys(parameter.choices))
    return {name: tuple(choices) for name, choices in merged.items()}


def choices_of_row(row: StudyRow) -> Choices:
    given = {name: tuple(choices) for name, choices in json.loads(row.distributions).items()}
    now = current_columns(json.loads(row.templates), list(given))
    return {now.get(name, name): current_choices(name, each) if name in now else each for name, each in given.items()}
