"""Decide the winner from interleaved measurements; results that the noise cannot tell apart are tied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.kernels.template import KernelTemplate
from tuner.results import Measurement, Result

FINALISTS = 5
FEW_ROUNDS = 3  # fewest rounds of a pass that is short of time
LONGER = 3  # factor on the rounds and seconds of a pass when the noise is above NOISY
NOISE = 0.01  # smallest gain that counts
TIE = 0.005  # relative difference of medians within which results of a pass are tied, however tight their intervals
NOISY = 0.05  # relative half-width of a median's interval beyond which a tie is uninformative
MOST_PASSES = 3  # interleaved measurements of the finalists in one run


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The outcome of the finals: results with their new measurements, the winner first."""

    ranking: tuple[Result, ...]
    tied: frozenset[str]


def complexity(template: KernelTemplate, result: Result) -> int:
    """Return how far a configuration is from the simplest: the sum of its choices' positions."""
    given = result.configuration.as_dict()
    return sum(parameter.choices.index(given[parameter.name]) for parameter in template.parameters)


def indistinguishable(fastest: Measurement, other: Measurement) -> bool:
    """Whether two interleaved measurements are within the noise of each other.

    Samples of a round were taken next to each other, so their ratio is free of drift from round to round: it is a tie
    unless the 95% interval of the ratio's median lies above 1 by more than ``TIE``.
    """
    ratios = tuple(slow / fast for fast, slow in zip(fastest.samples, other.samples, strict=False))
    return Measurement(samples=ratios).interval[0] <= 1 + TIE


def noise_of(results: Sequence[Result]) -> float:
    """Return half the interval of the fastest one's median, relative to it; 0 without any."""
    fastest = min((each for each in results if each.ok), key=lambda result: result.seconds, default=None)
    return fastest.measurement.spread if fastest and fastest.measurement else 0.0


def rank(results: Sequence[Result], simplicity: Callable[[Result], int]) -> Ranking:
    """Order results of the finals: the winner (the simplest of those tied with the fastest), the rest by median.

    Only results of the fastest one's own pass can tie with it. Where the noise is above ``NOISY``, nearly everything is
    tied and the simplest would win without merit, so the fastest median wins instead.
    """
    by_time = sorted(results, key=lambda result: result.seconds)
    if not by_time or by_time[0].measurement is None:
        return Ranking(ranking=tuple(by_time), tied=frozenset())
    best, fastest = by_time[0], by_time[0].measurement
    beside = [each for each in by_time if each.measurement and each.settled == best.settled]
    tied = [each for each in beside if each.measurement and indistinguishable(fastest, each.measurement)]
    winner = best if fastest.spread > NOISY else min(tied, key=lambda result: (simplicity(result), result.seconds))
    ranking = (winner, *(each for each in by_time if each is not winner))
    keys = frozenset(each.configuration.key for each in tied) if len(tied) > 1 else frozenset[str]()
    return Ranking(ranking=ranking, tied=keys)


def finalists(results: Sequence[Result], settled: frozenset[str], champion: str = "") -> list[Result]:
    """Return the results to measure again, the best five and the winner so far; none once all have been.

    Args:
        settled: Keys of those already measured in these finals.
        champion: The key of the earlier finals' winner, which takes part again.
    """
    ok = sorted((result for result in results if result.ok), key=lambda result: result.seconds)
    chosen = ok[:FINALISTS] + [each for each in ok[FINALISTS:] if each.configuration.key == champion]
    return chosen if any(each.configuration.key not in settled for each in chosen) else []
