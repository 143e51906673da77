"""The results of replayed searches: their curves, a sampler's scores, and the table of ``tune simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import geometric_mean, median

import numpy as np

from tuner.recordings.space import Recorded
from tuner.search.arrays import Floats

CHECKPOINTS = (20, 50, 100, 200)  # trials after which the best so far is scored
MEANS = "last row: geometric means of the evaluations, means of the ratios"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One search on a recorded space.

    Attributes:
        ratios: Best time so far over the optimum after each evaluation; infinite before the first success.
        proposals: Wall seconds of each proposal; a batch's time is divided evenly.
        compiling: Seconds spent compiling up to each proposal; all 0 where the recording does not say.
    """

    ratios: Floats
    proposals: Floats
    compiling: Floats = field(default_factory=lambda: np.zeros(1))

    def reaches(self, share: float) -> int:
        """Return after how many evaluations the best is within ``share`` of the optimum; one past the last if never."""
        within = self.ratios <= 1 + share
        return int(np.argmax(within)) + 1 if within.any() else len(self.ratios) + 1

    def compiled(self, share: float) -> float:
        """Return the seconds of compiling until then, or of the whole search if it never gets there."""
        return float(self.compiling[min(self.reaches(share), len(self.compiling)) - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A sampler on one space over several seeds.

    Attributes:
        to_5, to_1: Median evaluations to within 5% and 1%; a miss counts one more than all trials.
        ratios: Mean best over optimum at each of ``checkpoints``.
        found: Share of the seeds within 1% at the end.
        proposal_ms, worst_ms: Median and largest wall time of a proposal.
        compile_s: Median seconds of compiling to within 1%, compiled one at a time; 0 if not recorded.
    """

    space: str
    to_5: float
    to_1: float
    checkpoints: tuple[int, ...]
    ratios: tuple[float, ...]
    found: float
    proposal_ms: float
    worst_ms: float
    compile_s: float = 0.0


@dataclass(frozen=True)
class Summary:
    """A sampler on all spaces: scores by space, and their geometric means."""

    sampler: str
    trials: int
    seeds: int
    batch: int
    scores: tuple[Score, ...]

    @cached_property
    def to_5(self) -> float:
        return geometric_mean(score.to_5 for score in self.scores)

    @cached_property
    def to_1(self) -> float:
        return geometric_mean(score.to_1 for score in self.scores)

    @cached_property
    def ratios(self) -> tuple[float, ...]:
        return tuple(float(np.mean(column)) for column in zip(*(score.ratios for score in self.scores), strict=True))


def summarise(space: Recorded, curves: Sequence[Curve]) -> Score:
    """Summarise the curves of several seeds on one space; a search without a success counts as the slowest time."""
    ratios = np.minimum(np.stack([curve.ratios for curve in curves]), space.worst / space.best)
    proposals = np.concatenate([curve.proposals for curve in curves]) * 1e3
    checkpoints = tuple(point for point in CHECKPOINTS if point <= ratios.shape[1])
    return Score(
        space=space.name,
        to_5=float(median(curve.reaches(0.05) for curve in curves)),
        to_1=float(median(curve.reaches(0.01) for curve in curves)),
        checkpoints=checkpoints,
        ratios=tuple(float(ratios[:, point - 1].mean()) for point in checkpoints),
        found=float(np.mean([curve.ratios[-1] <= 1.01 for curve in curves])),
        proposal_ms=float(np.median(proposals)),
        worst_ms=float(proposals.max()),
        compile_s=float(median(curve.compiled(0.01) for curve in curves)),
    )


def cells(summary: Summary, compile_times: bool = False) -> list[tuple[str, ...]]:
    """Return the names of the columns, a row for each space, and the means over the spaces."""
    points = [f"at {point}" for point in summary.scores[0].checkpoints]
    head = ("space", "to 5%", "to 1%", *points, "found", "ms", "worst", *["compile s"] * compile_times)
    rows = [(*_cells(score), *[f"{score.compile_s:.1f}"] * compile_times) for score in summary.scores]
    means = (f"{summary.to_5:.1f}", f"{summary.to_1:.1f}", *(f"{ratio:.3f}" for ratio in summary.ratios))
    return [head, *rows, ("geometric mean", *means, *[""] * (len(head) - len(means) - 1))]


def _cells(score: Score) -> tuple[str, ...]:
    return (
        score.space,
        f"{score.to_5:.1f}",
        f"{score.to_1:.1f}",
        *(f"{ratio:.3f}" for ratio in score.ratios),
        f"{score.found:.0%}",
        f"{score.proposal_ms:.1f}",
        f"{score.worst_ms:.0f}",
    )


def title(summary: Summary) -> str:
    """Return the sampler and the searches that were made."""
    return f"{summary.sampler}, {summary.seeds} seeds, {summary.trials} trials, {summary.batch} at a time"


def table(summary: Summary) -> str:
    """Return the scores as aligned text of whatever width they need."""
    rows = cells(summary)
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [
        "  ".join([name.ljust(first), *(cell.rjust(wide) for cell, wide in zip(rest, others, strict=True))]).rstrip()
        for name, *rest in rows
    ]
    return "\n".join([title(summary), *lines, MEANS])
