"""Finals on the device: several configurations timed in turn, each launch checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tuner.bench.protocol import Heat
from tuner.bench.trial import Trial


class Spoilt(Exception):
    """A configuration that failed among others.

    Attributes:
        which: Its place.
        error: What it did.
    """

    def __init__(self, which: int, error: Exception) -> None:
        super().__init__(str(error))
        self.which, self.error = which, error


def interleave(
    trials: Sequence[Trial], heat: Heat, begun: float, audit: Callable[[], None] = lambda: None
) -> list[tuple[float, ...]]:
    """Time several configurations in turn, starting each round with another one; return each one's samples.

    What each launch left is checked, so that a fault is known to be the fault of the one that was just run.

    Args:
        trials: Checked configurations.
        begun: When the heat's limit began to count, by ``time.monotonic``.
        audit: What looks at all that no kernel may touch.

    Raises:
        Spoilt: One of them was wrong, or did harm.
    """
    started = time.monotonic()
    samples: list[list[float]] = [[] for _ in trials]
    for start in range(-1, heat.most):
        now = time.monotonic()
        if (start >= heat.fewest and now - started > heat.seconds) or (start >= heat.few and now - begun > heat.limit):
            break
        for step in range(len(trials)):
            which = (start + step) % len(trials)
            try:
                taken = trials[which].warm_up() if start < 0 else max(trials[which].counted_sample(), 1e-9)
                audit()
            except Exception as error:
                raise Spoilt(which, error) from None
            if start >= 0:
                samples[which].append(taken)
    return [tuple(each) for each in samples]
