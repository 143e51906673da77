"""A comparison as plain data, for ``--json``."""

from __future__ import annotations

from typing import Any

from tuner.compare import Comparison, Row


def comparison_json(done: Comparison) -> dict[str, Any]:
    """Return a comparison as plain data; times carry ``_ms``."""
    machine = done.environment
    return {
        "layer": done.problem.name,
        "batch": done.problem.rows,
        "precision": done.precision,
        "device": machine.device,
        "device_model": machine.model,
        "driver": machine.driver,
        "pytorch": done.pytorch or None,
        "study": done.study,
        "trial": done.trial,
        "floor_ms": 1e3 * done.roof.seconds if done.roof else None,
        "wall": done.roof.wall if done.roof else None,
        "own_floor_ms": 1e3 * done.own_roof.seconds if done.own_roof else None,
        "own_wall": done.own_roof.wall if done.own_roof else None,
        "rows": [_row_json(row, done) for row in done.rows],
        "notes": list(done.notes),
    }


def _row_json(row: Row, done: Comparison) -> dict[str, Any]:
    timed, against = row.measurement, row.ratio
    return {
        "name": row.name,
        "precision": row.precision,
        "layout": row.layout or (done.problem.LIBRARY.layouts[0] if done.problem.LIBRARY else None),
        "configuration": row.configuration.as_dict() if row.configuration else None,
        "template": row.configuration.template if row.configuration else None,
        "median_ms": 1e3 * timed.median if timed else None,
        "interval_ms": [1e3 * end for end in timed.interval] if timed else None,
        "samples_ms": [1e3 * sample for sample in timed.samples] if timed else [],
        "share_of_floor": done.roof.share(timed.median) if done.roof and timed else None,
        "ratio_to_ours": 1.0 if row is done.ours else against.median if against else None,
        "ratio_interval": list(against.interval) if against else None,
        "max_error": row.max_error,
        "relative_error": row.relative_error,
        "tolerance": row.tolerance,
        "within_tolerance": row.holds,
        "failure": row.failure or None,
    }
