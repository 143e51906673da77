"""Interleaved rounds: each contender once a round, each round begun by another one, so that drift hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.errors import TunerError
from tuner.results import Measurement

ROUNDS = range(9, 41)  # fewest and most
REST = 0.05  # seconds before each sample: threads that worked on a CPU spin a while before they sleep
SECONDS = 20.0  # no new round begins after this, once there are the fewest


@dataclass(slots=True, kw_only=True)
class Contender:
    """A contender that passed its entry: where its samples come from, and those it has."""

    name: str
    sample: Callable[[], float]
    samples: list[float] = field(default_factory=list)
    failure: str = ""


def run_rounds(entrants: Sequence[Contender], rounds: range = ROUNDS, seconds: float = SECONDS) -> None:
    """Fill each entrant's samples in turn; one that fails keeps its message and is left out from then on."""
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
