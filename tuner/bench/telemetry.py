"""The state a device was in while it was measured, in words: clock, temperature, power, throttling, by NVML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tuner.results import Result, Telemetry

OWN_LIMIT = "software power cap"  # what a card does at its own limit, whoever uses it
MOVED = 0.05  # clocks that differ by more than this share between trials are worth a line


def describe(telemetry: Telemetry) -> str:
    """Return the state in one line; empty where the device could not be asked."""
    known = (
        (telemetry.clock_mhz, "{:,.0f} MHz"),
        (telemetry.temperature_c, "{:.0f} C"),
        (telemetry.power_w, "{:.0f} W"),
    )
    parts = [text.format(value) for value, text in known if value is not None]
    throttled = [f"throttled: {telemetry.throttle}"] if telemetry.throttle else []
    return ", ".join(parts + throttled)


def disturbing(throttle: str) -> str:
    """Return the reasons for throttling that are no doing of the device's own power limit."""
    return ", ".join(reason for reason in throttle.split(", ") if reason and reason != OWN_LIMIT)


def warnings(results: Iterable[Result]) -> list[str]:
    """Return a line if trials were throttled, and one if their clocks moved by more than 5%."""
    states = [result.measurement.telemetry for result in results if result.measurement]
    reasons = Counter(state.throttle for state in states if state.throttle)
    clocks = [state.clock_mhz for state in states if state.clock_mhz]
    lines = []
    if reasons:
        said = "; ".join(f"{count} by {reason}" for reason, count in reasons.most_common())
        lines.append(f"throttled in {reasons.total()} of {len(states)} trials ({said}); cool or unload the device")
    if clocks and max(clocks) - min(clocks) > MOVED * max(clocks):
        lines.append(
            f"the clock moved between {min(clocks):,.0f} and {max(clocks):,.0f} MHz from trial to trial; lock it to "
            "compare trials closely: nvidia-smi -lgc"
        )
    return lines
