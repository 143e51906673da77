"""The end of a run as plain data, for ``--json``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner.cli.support.failures import failures_json
from tuner.cli.support.result_json import result_json
from tuner.results import Result
from tuner.tuning import Report, RunOptions
from tuner.tuning.resource_filter import FilterStats


def report_json(report: Report) -> dict[str, Any]:
    """Return the report as plain data; times in milliseconds carry ``_ms``, others are seconds."""
    progress, yardstick = report.progress, report.progress.yardstick
    floor = yardstick.roof
    return {
        "study": progress.study,
        "layer": progress.problem.name,
        "device": progress.environment.device,
        "device_model": progress.environment.model,
        "reason": report.reason,
        "trials": progress.done,
        "reused": progress.reused,
        "known_before": progress.known,
        "valid_configurations": progress.space,
        "floor_ms": None if floor is None else 1e3 * floor.seconds,
        "wall": None if floor is None else floor.wall,
        "naive_ms": None if progress.naive is None else 1e3 * progress.naive,
        "winner": report.best[0].number if report.winner else None,
        "finals": list(report.finals),
        "best": [
            {"trial": each.number, "winner": each.winner, "tied": each.tied, **result_json(each.result, yardstick)}
            for each in report.best
        ],
        "tolerance": report.tolerance,
        "error_unit": report.unit,
        "agreement": asdict(report.agreement) if report.agreement else None,
        "baselines": [result_json(result, yardstick) for result in report.baselines],
        "outcomes": dict(progress.outcomes),
        "failures": failures_json(report.failed),
        "foreseen": filter_json(report.filter_stats, report.winner),
        "health": list(report.health),
        "stopped": list(report.stopped),
        "over": report.over,
        "seconds": {
            "total": report.costs.total,
            "prepare": report.costs.prepare,
            "compile_wait": report.costs.compile_wait,
            "load": report.costs.load,
            "check": report.costs.check,
            "measure": report.costs.measure,
            "finals": report.costs.finals,
            "tuner": report.costs.tuner,
        },
    }


def nothing_json(asked: RunOptions) -> dict[str, Any]:
    """Return, as plain data, that a run was interrupted before its study existed."""
    return {
        "study": None,
        "layer": asked.problem.name,
        "device": asked.device,
        "reason": "interrupted",
        "winner": None,
        "best": [],
    }


def filter_json(seen: FilterStats, winner: Result | None) -> dict[str, Any]:
    compared = len(seen.errors)
    return {
        "dropped": dict(seen.dropped),
        "predicted": compared,
        "median_register_error": seen.median_error if compared else None,
        "register_error_90_percent": seen.error_of_90_percent if compared else None,
        "warps_right": seen.warps_right,
        "hopeless_compiled": seen.tried,
        "wrongly_hopeless": seen.wrong,
        "fastest_hopeless_over_best": seen.fastest / winner.seconds if winner and seen.fastest < float("inf") else None,
    }
