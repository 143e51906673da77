"""Interleaved rounds: each contender once a round, in rotating order, so that drift affects all equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.errors import TunerError
from tuner.results import Measurement

ROUNDS = range(9, 41)  # fewest and most
REST = 0.05  # seconds before each sample: a CPU's worker threads spin for a while before they sleep
SECONDS = 20.0  # seconds after which no new round begins, once there are the fewest


@dataclass(slots=True, kw_only=True)
class Contender:
    """A contender that was entered: the source of its samples, and those taken so far."""

    name: str
    sample: Callable[[], float]
    samples: list[float] = field(default_factory=list)
    failure: str = ""


def run_rounds(entrants: Sequence[Contender], rounds: range = ROUNDS, seconds: float = SECONDS) -> None:
    """Sample the contenders in turn; one that fails keeps its message and is skipped from then on."""
    started = time.monotonic()
    for start in range(rounds.stop - 1):
        if start >= rounds.start and time.monotonic() - started > seconds:
            return
        for step in range(len(entrants)):
            _take(entrants[(start + step) % len(entrants)])


def _take(entrant: Contender) -> None:
    if entrant.failure:
        return
    time.sleep(REST)
    try:
        entrant.samples.append(entrant.sample())
    except TunerError as error:
        entrant.failure = str(error).splitlines()[0]


def ratio(ours: Contender, theirs: Contender) -> Measurement | None:
    """Return theirs over ours, round by round: what drifts from round to round cancels."""
    pairs = tuple(their / our for our, their in zip(ours.samples, theirs.samples, strict=False))
    return Measurement(samples=pairs) if pairs else None
