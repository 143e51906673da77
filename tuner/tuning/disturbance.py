"""What may have disturbed a measurement: other processes, a device that has slowed down, throttling."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.bench.telemetry import disturbing
from tuner.tuning.finals import NOISY

LOOKS = 5  # samples of the running processes
BETWEEN = 0.01  # seconds between two samples
MOVED = 0.05  # smallest relative change of the canary that counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The state of the machine around a measurement.

    Attributes:
        load: The load average over a minute; None where the system has none.
        running: Other processes that wanted a core, as the median of the samples.
        cores: The cores that this process may use.
        canary: Time of the reference kernel relative to that before the search; None if it could not be timed.
        throttle: Reasons for which the device was slowed down.
    """

    load: float | None = None
    running: int = 0
    cores: int = 1
    canary: float | None = None
    throttle: str = ""

    @property
    def causes(self) -> list[str]:
        """What disturbs the measurement, in words."""
        found = []
        if self.running:
            average = "" if self.load is None else f", load average {self.load:.1f}"
            wanting = "one other process wants" if self.running == 1 else f"{self.running} other processes want"
            cores = "the one core" if self.cores == 1 else f"the {self.cores} cores"
            found.append(f"{wanting} {cores}{average}")
        if self.canary is not None and abs(self.canary - 1) > MOVED:
            found.append(f"the reference kernel takes {self.canary:.2f} of its time before the search")
        if reasons := disturbing(self.throttle):
            found.append(f"throttled by {reasons}")
        return found


def surroundings(before: Sequence[float], now: float | None, throttle: str = "") -> Surroundings:
    """Sample the state of the machine; takes about 50 ms, in which this process uses no core.

    Args:
        before, now: Seconds of the reference kernel, before the search and now.
    """
    load = None
    with suppress(OSError):
        load = os.getloadavg()[0]
    return Surroundings(
        load=load,
        running=others_running(),
        cores=len(os.sched_getaffinity(0)),
        canary=now / statistics.median(before) if now and before else None,
        throttle=throttle,
    )


def others_running(source: Path = Path("/proc/loadavg")) -> int:
    """Return how many other processes want a core, as the median of a few samples; 0 where that cannot be read."""
    looks = []
    for _ in range(LOOKS):
        with suppress(OSError, ValueError, IndexError):
            looks.append(int(source.read_text().split()[3].partition("/")[0]) - 1)
        time.sleep(BETWEEN)
    return max(0, int(statistics.median(looks))) if looks else 0


def noise_line(spread: float, seen: Surroundings | None) -> str:
    """Warn of finals whose noise is above ``NOISY``, with its causes; empty below.

    Args:
        spread: Half the interval of the winner's median, relative to it.
    """
    if spread <= NOISY:
        return ""
    causes = "; ".join(seen.causes if seen else ()) or "no cause was seen"
    noise = f"{spread:.0%}" if spread <= 1 else "over 100%"
    return (
        f"finals: noise of {noise}, above {NOISY:.0%}: {causes}; the fastest median is named first, and the same "
        "command on a quiet machine says more"
    )
