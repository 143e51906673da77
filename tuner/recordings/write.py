"""A study as a recorded space: every configuration with its time, samples, outcome and compile time, as CSV."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from tuner.errors import UsageError
from tuner.files import refuse_unwritable, write_whole
from tuner.kernels.subspace import Restriction
from tuner.recordings.space import COMMENT, PRUNED, RESULT_COLUMNS, TEMPLATE
from tuner.results import OK, Result
from tuner.storage import StudyHandle

SUFFIXES = (".csv", ".csv.gz")


def record_study(handle: StudyHandle, only: Restriction, path: Path | None) -> tuple[int, str]:
    """Write a study's trials to ``path``; return how many, and the text.

    Raises:
        UsageError: No trials, none with a time, or a file that cannot be written.
    """
    kept = [result for result in handle.results() if only.admits(result.configuration)]
    if not any(result.ok for result in kept):
        within = f" within {only}" if only else ""
        raise UsageError(f"study '{handle.name}': no trial{within} has a time; tune run measures some")
    text = "".join([*_comments(handle, only, len(kept)), _table(kept, list(handle.choices))])
    if path is not None:
        check_recording(path)
        packed = gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
        try:
            write_whole(path, packed)
        except OSError as error:
            raise UsageError(f"recording {path}: {error.strerror}; give a file in a folder you may write") from None
    return len(kept), text


def check_recording(path: Path) -> None:
    """Refuse what cannot be written, and a plain file's name that ``tune simulate`` would not read."""
    refuse_unwritable(path, "recording")
    if not path.name.endswith(SUFFIXES) and (path.is_file() or not path.exists()):
        raise UsageError(f"recording {path}: '{path.suffix}' is not a kind of recording; give a .csv or .csv.gz file")


def _comments(handle: StudyHandle, only: Restriction, count: int) -> Iterator[str]:
    """Say what was measured, and where."""
    key, machine = handle.key, handle.environment
    facts = {
        "study": handle.name,
        "layer": f"{key.problem}: {handle.problem.describe()}",
        "precision": key.precision,
        "only": str(only),
        "configurations": str(count),
        "device": f"{machine.device}: {machine.model}",
        "driver": machine.driver,
        "toolkit": machine.toolkit,
        "arch": machine.arch,
        "host": machine.host,
        "peak_flops": "" if machine.peak_flops is None else f"{machine.peak_flops:.4g}",
        "peak_bytes": "" if machine.peak_bytes is None else f"{machine.peak_bytes:.4g}",
        "protocol": key.protocol,
    }
    return (f"{COMMENT} {name}: {' '.join(text.split())}\n" for name, text in facts.items() if text)


def _table(results: Iterable[Result], names: list[str]) -> str:
    """Write a line a result; ``names`` are all parameters, ``template`` first."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*names, *RESULT_COLUMNS], restval="", lineterminator="\n")
    writer.writeheader()
    for result in results:
        configuration = result.configuration
        writer.writerow({TEMPLATE: configuration.template, **configuration.as_dict(), **_cells(result)})
    return out.getvalue()


def _cells(result: Result) -> dict[str, str]:
    compiling = f"{1e3 * result.costs.compile:.0f}"
    if not result.ok or result.measurement is None:
        return {"status": result.outcome, "compile_ms": compiling}
    samples = np.array(result.measurement.samples)
    return {
        "time_ms": f"{1e3 * result.seconds:.6g}",
        "status": PRUNED if result.measurement.pruned else OK,
        "rel_std": f"{samples.std() / samples.mean():.4f}",
        "compile_ms": compiling,
        "samples_ms": " ".join(f"{1e3 * sample:.6g}" for sample in samples),
    }
