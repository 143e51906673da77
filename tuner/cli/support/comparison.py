"""Output of a comparison: a table with bars, a picture, plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuner.cli.support.folding import echo, width
from tuner.cli.support.text import echo_wrapped, milliseconds, table
from tuner.compare import Comparison, Row
from tuner.errors import StorageError
from tuner.report.charts import Bar, bar_figure, bar_lines
from tuner.report.pictures import write_picture

EXPLAINED = (
    "error: the largest of all elements, over the output's range; within: of its precision's tolerance. {theirs} "
    "inputs already lie on the device in its layout and precision; ours are FP32, {layout}, the output too."
)


def print_comparison(done: Comparison) -> None:
    """Print all contenders in a table, with bars below."""
    machine = done.environment
    echo(f"{done.problem.name}: {done.problem.describe()}")
    echo_wrapped(f"{machine.model}, driver {machine.driver}; {done.pytorch or 'without PyTorch'}")
    echo()
    columns = ("contender", "ms", "+-", "vs ours", "error", "within")
    table("one run, interleaved, cold cache", columns, [_cells(row) for row in done.rows], left=("contender",))
    echo()
    call = done.problem.LIBRARY
    if call:
        theirs = f"{call.library}'s" if machine.kind == "cuda" else "PyTorch's"
        echo_wrapped(EXPLAINED.format(theirs=theirs, layout=call.layouts[0]))
    for row in done.rows:
        if row.failure:
            echo_wrapped(f"{row.name}: {row.failure}")
    for note in done.notes:
        echo_wrapped(note)
    echo()
    for line in bar_lines(_bars(done), width()):
        echo(line)
    echo(f"\n{done.study}, trial {done.trial}:")
    echo_wrapped(str(done.ours.configuration))


def _cells(row: Row) -> tuple[str, ...]:
    timed, error = row.measurement, row.relative_error
    within = {None: "-", True: "yes", False: "no"}[row.holds]
    return (
        row.name,
        milliseconds(timed.median) if timed else "failed",
        f"{timed.spread:.1%}" if timed else "",
        f"{row.ratio.median:.2f}x" if row.ratio else "",
        "-" if error is None else f"{error:.1e}",
        within,
    )


def _bars(done: Comparison) -> list[Bar]:
    bars = [
        Bar(label=f"roofline ({each.wall})", value=each.seconds, text=f"{milliseconds(each.seconds)} ms", kind="floor")
        for each in dict.fromkeys((done.roof, done.own_roof))
        if each
    ]
    for row in done.rows:
        if row.measurement:
            text = f"{milliseconds(row.measurement.median)} ms"
            kind = "ours" if row is done.ours else "other"
            measured = row.measurement
            bars.append(Bar(label=row.name, value=measured.median, text=text, kind=kind, interval=measured.interval))
    return bars


def write_plot(path: Path, done: Comparison) -> None:
    """Write the bars as a picture.

    Raises:
        StorageError: The file cannot be written.
    """
    title = f"{done.problem.name}, {done.problem.ROWS}={done.problem.rows:,}: milliseconds, median and 95% interval"
    subtitle = f"{done.environment.model}, {done.pytorch or 'without PyTorch'}"
    try:
        write_picture(path, bar_figure(title, subtitle, _bars(done)))
    except OSError as error:
        raise StorageError(f"--plot {path}: {error.strerror}; the figures above are all there is") from None
    echo(f"wrote {path}", err=True)


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
