"""Notes on the finals: results of the search that did not hold when measured beside the winner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tuner.results import Result
from tuner.tuning.finals import NOISY

MOST_LINES = 5


def finals_notes(
    before: Mapping[str, float], finalists: Sequence[Result], winner: Result | None, number: Callable[[Result], int]
) -> list[str]:
    """Return a line for each finalist that failed, or that was faster than the winner in the search and is slower now.

    Args:
        before: Seconds by key, before the finals.
        finalists: As the finals measured them.
        number: Returns the number of a result's trial.
    """
    lines = []
    for each in sorted(finalists, key=lambda result: before[result.configuration.key]):
        then = before[each.configuration.key]
        if not each.ok:
            first = each.text.splitlines()[0] if each.text else "no message"
            lines.append(f"finals: trial {number(each)} failed there: {each.outcome}: {first}")
        elif winner is None or each is winner:
            continue
        elif then < winner.seconds < each.seconds and each.seconds > then * (1 + NOISY / 2):
            now = f"{1e3 * each.seconds:.4g} interleaved"
            lines.append(f"finals: trial {number(each)}'s {1e3 * then:.4g} ms did not hold ({now})")
    return lines[:MOST_LINES] + slower_winner(before, winner, number)


def slower_winner(before: Mapping[str, float], winner: Result | None, number: Callable[[Result], int]) -> list[str]:
    """Return a line if the winner itself is clearly slower than the search had measured."""
    then = before.get(winner.configuration.key) if winner else None
    if winner is None or then is None or winner.seconds <= then * (1 + NOISY):
        return []
    return [
        f"finals: trial {number(winner)} won with {1e3 * winner.seconds:.4g} ms, where the search had measured "
        f"{1e3 * then:.4g}"
    ]
