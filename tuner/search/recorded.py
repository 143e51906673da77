"""Recorded spaces: every configuration of a kernel with its measured time, read from three kinds of file.

- ``NAME.csv`` or ``NAME.csv.gz``: a column per parameter, then ``time_ms`` (empty for a failure) and optionally
  ``status``, ``rel_std`` and ``compile_ms``.
- A Kernel Tuner cache file, closed or still open (its last line ends with a comma).
- A T4 results file, as Kernel Tuner's ``store_output_file`` writes it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tuner.errors import UsageError
from tuner.search.candidates import Axis, Candidates, Floats, Rows

Value = int | float | str
_EXTRA = ("time_ms", "status", "rel_std", "compile_ms")
_KERNEL_TUNER_FAILURE = 1e19  # older cache files have 1e20 for a failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of a recording; ``where`` names it in messages.

    Attributes:
        milliseconds: None for a failure.
        noise: Relative standard deviation of the runs behind the mean.
    """

    where: str
    values: tuple[tuple[str, Value], ...]
    milliseconds: float | None
    noise: float = 0.0
    compile_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded:
    """A space with all its results, to replay a search on.

    Attributes:
        seconds: True time of every candidate; NaN for a failure.
        measured: What a search is told; the truth unless noise was asked for.
        noise: Relative standard deviation of each candidate's runs.
        compile_seconds: What each candidate took to compile; 0 where it was not recorded.
    """

    name: str
    candidates: Candidates
    seconds: Floats
    measured: Floats
    noise: Floats
    compile_seconds: Floats

    @property
    def best(self) -> float:
        return float(np.nanmin(self.seconds))

    @property
    def worst(self) -> float:
        return float(np.nanmax(self.seconds))

    @property
    def told_noise(self) -> Floats:
        """What a search is told of the noise: none where it is told the truth."""
        return self.noise if self.measured is not self.seconds else np.zeros_like(self.noise)

    def noisy(self, seed: int) -> Recorded:
        """Return the same space as another search would have measured it."""
        drawn = np.random.default_rng(seed).normal(size=len(self.seconds))
        return replace(self, measured=self.seconds * np.exp(self.noise * drawn))


def load_recorded(path: Path) -> Recorded:
    """Read a recording; the kind of file follows from its name and content.

    Raises:
        UsageError: The file is missing, of no known kind, or holds something impossible; one line that says where.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UsageError(f"recorded space {path}: cannot be read: {error}") from None
    stem = path.name.removesuffix(".gz")
    records = _from_csv(text) if stem.endswith(".csv") else _from_json(text, path)
    try:
        return _assemble(stem.rsplit(".", 1)[0], list(records))
    except UsageError as error:
        raise UsageError(f"recorded space {path}: {error}") from None


def _from_csv(text: str) -> Iterator[Record]:
    reader = csv.DictReader(io.StringIO(text))
    columns = list(reader.fieldnames or [])
    if "time_ms" not in columns:
        raise UsageError(f"no column time_ms among {', '.join(columns) or 'none'}; it holds the time, empty if failed")
    parameters = [column for column in columns if column not in _EXTRA]
    if not parameters:
        raise UsageError("no parameter column; there is one for each parameter beside time_ms")
    for number, row in enumerate(reader, start=2):
        where = f"line {number}"
        if None in row or None in row.values():
            raise UsageError(f"{where}: {len(columns)} columns expected, one for each name in the first line")
        yield Record(
            where=where,
            values=tuple((name, _value(row[name])) for name in parameters),
            milliseconds=_number(row["time_ms"], where, "time_ms") if row["time_ms"].strip() else None,
            noise=_number(row.get("rel_std") or "0", where, "rel_std"),
            compile_seconds=_number(row.get("compile_ms") or "0", where, "compile_ms") / 1e3,
        )


def _number(text: str, where: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{where}: {name} is '{text}'; a number is expected") from None


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _from_json(text: str, path: Path) -> Iterator[Record]:
    try:
        content = json.loads(text)
    except ValueError:
        try:
            content = json.loads(text.rstrip().rstrip(",") + "}}")  # a cache file that was never closed
        except ValueError as error:
            raise UsageError(f"recorded space {path}: neither CSV nor JSON: {error}") from None
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
    """Read a cache's entries; what its constraints excluded is no part of the space."""
    for key, entry in cache.items():
        where = f"entry {key}"
        time = entry.get("time")
        if time == "InvalidConfig":
            continue
        if any(name not in entry for name in names):
            raise UsageError(f"{where}: parameters missing; expected {', '.join(names)}")
        failed = not isinstance(time, int | float) or time > _KERNEL_TUNER_FAILURE
        yield Record(
            where=where,
            values=tuple((name, _plain(entry[name])) for name in names),
            milliseconds=None if failed else float(time),
            noise=_spread(entry.get("times") or ()),
            compile_seconds=float(entry.get("compile_time") or 0) / 1e3,
        )


def _from_t4(results: list[Any]) -> Iterator[Record]:
    """Read results in order; of a configuration that was tried more than once the first counts."""
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


def _assemble(name: str, records: list[Record]) -> Recorded:
    if not records:
        raise UsageError("no configurations")
    names = [parameter for parameter, _ in records[0].values]
    known: dict[tuple[tuple[str, Value], ...], str] = {}
    for record in records:
        time = record.milliseconds
        if time is not None and not (math.isfinite(time) and time > 0):
            raise UsageError(f"{record.where}: the time is {time} ms; it is positive, or missing for a failure")
        if not (math.isfinite(record.noise) and record.noise >= 0):
            raise UsageError(f"{record.where}: the relative deviation is {record.noise}; it is 0 or more")
        if [parameter for parameter, _ in record.values] != names:
            raise UsageError(f"{record.where}: its parameters are not {', '.join(names)}")
        if record.values in known:
            raise UsageError(f"{record.where} repeats the configuration of {known[record.values]}; keep one of them")
        known[record.values] = record.where
    if all(record.milliseconds is None for record in records):
        raise UsageError("every configuration failed; at least one must have a time")
    seconds = np.array([np.nan if record.milliseconds is None else record.milliseconds / 1e3 for record in records])
    return Recorded(
        name=name,
        candidates=_candidates(names, [[value for _, value in record.values] for record in records]),
        seconds=seconds,
        measured=seconds,
        noise=np.array([record.noise for record in records]),
        compile_seconds=np.array([record.compile_seconds for record in records]),
    )


def _candidates(names: list[str], rows: list[list[Value]]) -> Candidates:
    axes = []
    choices: Rows = np.zeros((len(rows), len(names)), dtype=np.uint8)
    for column, name in enumerate(names):
        values = [row[column] for row in rows]
        if any(isinstance(value, str) for value in values):
            values = [str(value) for value in values]
        axis = Axis(name, tuple(dict.fromkeys(values)) if isinstance(values[0], str) else tuple(sorted(set(values))))
        position = {value: index for index, value in enumerate(axis.choices)}
        choices[:, column] = [position[value] for value in values]
        axes.append(axis)
    groups = np.zeros(len(rows), dtype=np.uint8)
    return Candidates(axes=tuple(axes), choices=choices, groups=groups, names=("recorded",))
