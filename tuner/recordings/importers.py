"""Read other tuners' result files as they are: Kernel Tuner's cache, and the T4 form of its ``store_output_file``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tuner.errors import UsageError

Value = int | float | str
KERNEL_TUNER_FAILURE: Final = 1e19  # older cache files have 1e20 for a failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of a recording; ``where`` names it in messages.

    Attributes:
        values: None where the configuration's template does not have the parameter.
        milliseconds: None for a failure.
        noise: Relative standard deviation of the runs behind the mean.
        pruned: ``milliseconds`` is only a lower bound.
    """

    where: str
    values: tuple[tuple[str, Value | None], ...]
    milliseconds: float | None
    noise: float = 0.0
    compile_seconds: float = 0.0
    pruned: bool = False


def from_json(text: str, path: Path) -> Iterator[Record]:
    try:
        content = json.loads(text)
    except ValueError:
        try:
            content = json.loads(text.rstrip().rstrip(",") + "}}")  # a cache file that was never closed
        except ValueError as error:
            raise UsageError(
                f"recorded space {path}: not JSON ({error}), and not named .csv or .csv.gz; give a recording, as "
                "`tune record` writes one"
            ) from None
    match content:
        case {"cache": dict(cache), "tune_params_keys": list(names)}:
            return _from_cache(cache, names)
        case {"results": list(results)}:
            return _from_t4(results)
    raise UsageError(
        f"recorded space {path}: no recording in it; a Kernel Tuner cache has 'cache' and 'tune_params_keys', "
        "a T4 file 'results'; of the CSV form give the .csv or .csv.gz"
    )


def _from_cache(cache: dict[str, Any], names: list[str]) -> Iterator[Record]:
    """Read a cache's entries; what its constraints excluded is not part of the space."""
    for key, entry in cache.items():
        where = f"entry {key}"
        time = entry.get("time")
        if time == "InvalidConfig":
            continue
        if any(name not in entry for name in names):
            raise UsageError(f"{where}: parameters missing; expected {', '.join(names)}")
        failed = not isinstance(time, int | float) or time > KERNEL_TUNER_FAILURE
        yield Record(
            where=where,
            values=tuple((name, _plain(entry[name])) for name in names),
            milliseconds=None if failed else float(time),
            noise=_spread(entry.get("times") or ()),
            compile_seconds=float(entry.get("compile_time") or 0) / 1e3,
        )


def _from_t4(results: list[Any]) -> Iterator[Record]:
    """Read results in order; the first trial of a configuration counts."""
    known = set()
    for number, result in enumerate(results):
        where = f"result {number}"
        try:
            values = tuple((name, _plain(value)) for name, value in result["configuration"].items())
            validity, times = result["invalidity"], result.get("times") or {}
        except (KeyError, TypeError, AttributeError):
            raise UsageError(f"{where}: not a T4 result; configuration and invalidity are expected") from None
        if validity == "constraints" or values in known:
            continue
        known.add(values)
        runs = [float(run) for run in times.get("runtimes") or ()]
        yield Record(
            where=where,
            values=values,
            milliseconds=_t4_time(result, runs, where) if validity == "correct" else None,
            noise=_spread(runs),
            compile_seconds=float(times.get("compilation") or times.get("compilation_time") or 0) / 1e3,
        )


def _t4_time(result: dict[str, Any], runs: list[float], where: str) -> float:
    for measurement in result.get("measurements") or ():
        if measurement.get("name") == "time" and isinstance(measurement.get("value"), int | float):
            return float(measurement["value"])
    if not runs:
        raise UsageError(f"{where}: correct, but without a measurement named time and without runtimes")
    return sum(runs) / len(runs)


def _plain(value: Any) -> Value:
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float | str) else json.dumps(value)


def _spread(runs: Iterable[float]) -> float:
    values = np.array([run for run in runs if isinstance(run, int | float)], dtype=float)
    return float(values.std() / values.mean()) if len(values) > 1 and values.mean() > 0 else 0.0
