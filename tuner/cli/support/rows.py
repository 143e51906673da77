"""Printed results: a row of a table, and the lines below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.cli.support.text import gigaflops, milliseconds, percent, rate, spread, times

if TYPE_CHECKING:
    from tuner.bench.roofline import Yardstick
    from tuner.results import Resources, Result

COLUMNS = ("trial", "ms", "+-", "GFLOP/s", "roofline", "vs naive", "template")
UNSETTLED = "*: winner; ?: measured as fast, but was not in the finals"


def speed(result: Result, yardstick: Yardstick) -> tuple[str, ...]:
    """Return a result's cells in a table: ms, +-, GFLOP/s, share of the roofline, times as fast as naive."""
    return (
        milliseconds(result.seconds),
        spread(result),
        gigaflops(yardstick.problem.flop, result.seconds),
        percent(yardstick.share_of_roof(result)),
        times(yardstick.times_naive(result)),
    )


def mark(result: Result, winner: Result | None, *, is_winner: bool, tied: bool = False) -> str:
    """Return the mark of a trial's number: * the winner, = a tie with it, ? only measured as fast."""
    if is_winner:
        return "*"
    return "=" if tied else "?" if winner and result.seconds <= winner.seconds else ""


def legend(trials: Sequence[str]) -> str:
    """Explain a table's marks where one of them needs it."""
    return UNSETTLED if any(trial.startswith("?") for trial in trials) else ""


def resources_line(used: Resources) -> str:
    """Return the resources that a kernel uses, in one line, without those that are unknown."""
    parts = (
        (used.registers, f"registers {used.registers}"),
        (used.shared_bytes, f"shared {used.shared_bytes or 0:,} bytes"),
        (used.local_bytes, f"local {used.local_bytes or 0:,} bytes"),
        (used.spill_bytes, f"spilled {used.spill_bytes or 0:,} bytes"),
        (used.occupancy, f"occupancy {percent(used.occupancy)}"),
    )
    return ", ".join(text for value, text in parts if value is not None)


def roof_line(yardstick: Yardstick, result: Result) -> str:
    """Return a result's share of its roofline bound and what limits it; empty while the ceilings are unknown."""
    bound, machine = yardstick.roof_of(result), yardstick.environment
    if bound is None:
        return ""
    peaks = [f"memory {rate(machine.peak_bytes, 'B/s')}", f"FMA {rate(machine.peak_flops, 'FLOP/s')}"]
    if machine.peak_tf32 and machine.peak_fp16:
        peaks.append(f"tensor cores {rate(machine.peak_tf32, '')}/{rate(machine.peak_fp16, 'FLOP/s')} TF32/FP16")
    return (
        f"{percent(yardstick.share_of_roof(result))} of its roofline bound, {milliseconds(bound.seconds)} ms, limited "
        f"by {bound.wall} ({', '.join(peaks)})"
    )


def conditions(result: Result) -> list[str]:
    """Return lines on the state of the device while a result was measured."""
    from tuner.bench.telemetry import describe

    lines: list[str] = []
    if result.measurement is None:
        return lines
    canary, ratio = result.measurement.canary, result.measurement.ratio
    if canary and ratio:
        lines.append(f"{ratio:.4g} times the canary, the reference kernel on a few rows ({milliseconds(canary)} ms)")
    if state := describe(result.measurement.telemetry):
        lines.append(f"measured at {state}")
    return lines
