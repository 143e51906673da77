"""A result as plain data, for ``--json``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner.bench.roofline import Yardstick
from tuner.results import Result


def result_json(result: Result, yardstick: Yardstick) -> dict[str, Any]:
    """Return one result as plain data."""
    plain: dict[str, Any] = {
        "template": result.configuration.template,
        "parameters": result.configuration.as_dict(),
        "outcome": result.outcome,
        "baseline": result.baseline or None,
        "confirmed": result.confirmed,
        "settled": bool(result.settled),
        "search_ms": None if result.searched is None else 1e3 * result.searched,
        "reused": result.reused,
        "max_error": result.max_error,
        "registers": result.resources.registers,
        "shared_bytes": result.resources.shared_bytes,
        "local_bytes": result.resources.local_bytes,
        "occupancy": result.resources.occupancy,
        "spill_bytes": result.resources.spill_bytes,
        "text": result.text or None,
    }
    if result.measurement:
        low, high = result.measurement.interval
        plain |= {
            "median_ms": 1e3 * result.seconds,
            "interval_ms": [1e3 * low, 1e3 * high],
            "samples": len(result.measurement.samples),
            "pruned": result.measurement.pruned,
            "canary_ms": result.measurement.canary and 1e3 * result.measurement.canary,
            "canary_ratio": result.measurement.ratio,
            "telemetry": asdict(result.measurement.telemetry),
            "gflops": yardstick.problem.flop / result.seconds / 1e9 if result.ok else None,
            "share_of_floor": yardstick.share_of_roof(result),
            "wall": bound.wall if (bound := yardstick.roof_of(result)) else None,
        }
    return plain
