"""Recorded spaces: every configuration of a kernel with its measured time, read from three kinds of file.

- ``NAME.csv`` or ``NAME.csv.gz``: lines of comment that begin with ``#``, then a column per parameter, ``time_ms``
  (empty for a failure) and optionally ``status`` (``pruned``: the time is a lower bound), ``rel_std``,
  ``compile_ms`` and ``samples_ms``. With a column ``template``, an empty cell is a parameter that it does not have;
  with a comment ``# layer:`` besides, our own templates' figures are known.
- A Kernel Tuner cache file, closed or still open (its last line ends with a comma).
- A T4 results file, as Kernel Tuner's ``store_output_file`` writes it.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tuner.errors import UsageError
from tuner.kernels.renames import current_choices, current_columns
from tuner.problems.problem import Problem
from tuner.recordings.importers import Record, Value, from_json
from tuner.recordings.provenance import problem_of_text, with_origins
from tuner.search.arrays import Floats, Rows
from tuner.search.candidates import ABSENT, Axis, Candidates

RESULT_COLUMNS: Final = ("time_ms", "status", "rel_std", "compile_ms", "samples_ms")
TEMPLATE: Final = "template"
PRUNED: Final = "pruned"
COMMENT: Final = "#"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded:
    """A space with all its results, to replay a search on.

    Attributes:
        seconds: True time of every candidate; NaN for a failure.
        measured: The time that a search is given: the true one unless noise was asked for.
        noise: Relative standard deviation of each candidate's runs.
        compile_seconds: What each candidate took to compile; 0 where it was not recorded.
        pruned: Candidates whose time is only a lower bound.
    """

    name: str
    candidates: Candidates
    seconds: Floats
    measured: Floats
    noise: Floats
    compile_seconds: Floats
    pruned: npt.NDArray[np.bool_]

    @property
    def best(self) -> float:
        return float(np.nanmin(self.seconds))

    @property
    def worst(self) -> float:
        return float(np.nanmax(self.seconds))

    @property
    def told_noise(self) -> Floats:
        """The noise that a search is told of: none if it is given true times."""
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
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise UsageError(
            f"recorded space {path}: cannot be read ({_reason(error)}); give a recording, as `tune record` writes one"
        ) from None
    stem = path.name.removesuffix(".gz")
    records = _from_csv(text) if stem.endswith(".csv") else from_json(text, path)
    try:
        return _assemble(stem.rsplit(".", 1)[0], list(records), problem_of_text(text))
    except UsageError as error:
        raise UsageError(f"recorded space {path}: {error}") from None


def _reason(error: Exception) -> str:
    """Return why a file cannot be read, without its name."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start:,} is not UTF-8"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _from_csv(text: str) -> Iterator[Record]:
    lines = text.splitlines()
    comments = sum(1 for _ in takewhile(lambda line: line.startswith(COMMENT), lines))
    reader = csv.DictReader(lines[comments:])
    columns = list(reader.fieldnames or [])
    if "time_ms" not in columns:
        raise UsageError(f"no column time_ms among {', '.join(columns) or 'none'}; it holds the time, empty if failed")
    parameters = [column for column in columns if column not in RESULT_COLUMNS]
    if not set(parameters) - {TEMPLATE}:
        raise UsageError("no parameter column; there is one for each parameter beside time_ms")
    rows = list(reader)
    now = current_columns({str(row[TEMPLATE]) for row in rows} if TEMPLATE in parameters else (), parameters)
    for number, row in enumerate(rows, start=comments + 2):
        where = f"line {number}"
        if None in row or None in row.values():
            raise UsageError(f"{where}: {len(columns)} columns expected, one for each name in the first line")
        empty = next((name for name in parameters if not row[name]), None)
        if empty and (empty == TEMPLATE or TEMPLATE not in parameters):
            raise UsageError(f"{where}: {empty} is empty; every parameter has a value")
        yield Record(
            where=where,
            values=tuple((now.get(name, name), _cell(name, row[name], now)) for name in parameters),
            milliseconds=_number(row["time_ms"], where, "time_ms") if row["time_ms"].strip() else None,
            noise=_number(row.get("rel_std") or "0", where, "rel_std"),
            compile_seconds=_number(row.get("compile_ms") or "0", where, "compile_ms") / 1e3,
            pruned=row.get("status") == PRUNED,
        )


def _cell(column: str, text: str, now: Mapping[str, str]) -> Value | None:
    """Return a parameter's value, in today's words if the column has been renamed."""
    if not text:
        return None
    value = _value(text)
    return current_choices(column, (value,))[0] if column in now else value


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


def _assemble(name: str, records: list[Record], problem: Problem | None) -> Recorded:
    if not records:
        raise UsageError("no configurations; give a recording of at least one")
    names = [parameter for parameter, _ in records[0].values]
    known: dict[tuple[tuple[str, Value | None], ...], str] = {}
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
        candidates=_candidates(names, [[value for _, value in record.values] for record in records], problem),
        seconds=seconds,
        measured=seconds,
        noise=np.array([record.noise for record in records]),
        compile_seconds=np.array([record.compile_seconds for record in records]),
        pruned=np.array([record.pruned for record in records]),
    )


def _candidates(names: list[str], rows: list[list[Value | None]], problem: Problem | None) -> Candidates:
    """Lay out the parameters' columns; one named ``template`` tells the templates apart."""
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    templates = [str(value) for value in columns.pop(TEMPLATE, ("recorded",) * len(rows))]
    columns = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    known = list(dict.fromkeys(templates))
    axes = tuple(Axis(name, _choices(values)) for name, values in columns.items())
    choices: Rows = np.full((len(rows), len(axes)), ABSENT, dtype=np.uint8)
    for column, (axis, values) in enumerate(zip(axes, columns.values(), strict=True)):
        position = {choice: index for index, choice in enumerate(axis.choices)}
        words = isinstance(axis.choices[0], str)
        for row, value in enumerate(values):
            if value is not None:
                choices[row, column] = position[str(value) if words else value]
    groups = np.array([known.index(name) for name in templates], dtype=np.uint8)
    found = Candidates(axes=axes, choices=choices, groups=groups, names=tuple(known))
    return with_origins(found, problem) if TEMPLATE in names else found


def _choices(values: tuple[Value | None, ...]) -> tuple[Value, ...]:
    """Return a parameter's choices: numbers ascending, words as they come; all as words if one of them is."""
    given = [value for value in dict.fromkeys(values) if value is not None]
    if any(isinstance(value, str) for value in given):
        return tuple(dict.fromkeys(str(value) for value in given))
    return tuple(sorted(given, key=float))
