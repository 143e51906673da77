"""Where a header's numbers come from, in the lines of its first comment."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from tuner.bench.roofline import operands_of
from tuner.export.winner import Winner
from tuner.kernels.limits import ANY_MAGNITUDE
from tuner.results import Measurement, Result


def provenance(winner: Winner, measurement: Measurement) -> tuple[str, ...]:
    """Return what was measured, checked and compiled, where, and the command that does it again, a line each."""
    result, where, problem = winner.result, winner.environment, winner.problem
    low, high = (1e3 * bound for bound in measurement.interval)
    taken = datetime.fromtimestamp(result.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    checked = "checked again on second inputs and a ragged batch" if result.confirmed else "not confirmed yet"
    return (
        f"{winner.entry}: {problem.title}, {problem.describe()}, {_numbers(result)}.",
        f"The fastest correct configuration found by {_product()}.",
        "",
        f"  measured  {result.seconds * 1e3:.4g} ms (median of {len(measurement.samples)} launches, 95% interval "
        f"{low:.4g} to {high:.4g} ms), {problem.flop / result.seconds / 1e9:,.0f} GFLOP/s",
        *_speedup(winner),
        f"  error     at most {_number(result.max_error)}, allowed {_number(winner.tolerance)}{_in_units(winner)}; "
        f"{checked}",
        *_magnitudes(winner),
        *(
            ["  memory    keeps some of its own from launch to launch: later launches may differ"]
            if winner.template.static_memory
            else []
        ),
        *([f"  time      {one_line(result.text)}"] if result.text else []),
        f"  device    {where.model}, driver {where.driver}, {where.arch}",
        f"  compiler  {where.toolkit}",
        f"  study     {winner.study}, trial {winner.trial}, {taken}",
        f"  template  {winner.template.name}: {winner.template.idea}",
        f"  again     {winner.command}",
    )


def _in_units(winner: Winner) -> str:
    """Return the error in errors of a plain FP32 kernel on the same inputs."""
    error, unit = winner.result.max_error, winner.unit
    return f" ({error / unit:.2g} times that of a plain FP32 kernel)" if unit and error is not None else ""


def _magnitudes(winner: Winner) -> tuple[str, ...]:
    """Say which numbers the kernel's arithmetic does not hold, where it is narrower than FP32's."""
    least, most = winner.template.magnitudes_of(winner.result.configuration)
    if (least, most) == ANY_MAGNITUDE:
        return ()
    return (
        f"  numbers   right for |x| from {least:g} to {most:g}, and zeros; smaller ones lose digits, larger ones fail",
    )


def _numbers(result: Result) -> str:
    operands = operands_of(result.configuration)
    return "float32" if operands == "fp32" else f"float32 in memory, multiplied as {operands} on tensor cores"


def _speedup(winner: Winner) -> tuple[str, ...]:
    if winner.naive_seconds is None:
        return ()
    times = winner.naive_seconds / winner.result.seconds
    return (f"  speed-up  {times:.3g} times over the naive kernel ({winner.naive_seconds * 1e3:.4g} ms)",)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _product() -> str:
    try:
        return f"tuner {version('tuner')}"
    except PackageNotFoundError:
        return "tuner"


def one_line(text: str) -> str:
    """Return a text that cannot end a comment's line, nor continue it."""
    return " ".join(text.splitlines()).rstrip("\\ ")
