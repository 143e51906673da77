"""Replay recorded spaces, and count the evaluations a sampler needs: ``python -m tuner.search.simulate SPACE...``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from tuner.errors import UsageError
from tuner.search.candidates import Floats
from tuner.search.recorded import Recorded, load_recorded
from tuner.search.samplers import make_sampler

CHECKPOINTS = (20, 50, 100, 200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One search on a recorded space.

    Attributes:
        ratios: Best time so far over the optimum after each evaluation; infinite before the first success.
        proposals: Wall seconds of each proposal; a batch's are shared out evenly.
    """

    ratios: Floats
    proposals: Floats

    def reaches(self, share: float) -> int:
        """Return after how many evaluations the best is within ``share`` of the optimum; one past the last if never."""
        within = self.ratios <= 1 + share
        return int(np.argmax(within)) + 1 if within.any() else len(self.ratios) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A sampler on one space over several seeds.

    Attributes:
        to_5, to_1: Median evaluations to within 5% and 1%; a miss counts one more than all trials.
        ratios: Mean best over optimum at each of ``checkpoints``.
        found: Share of the seeds within 1% at the end.
        proposal_ms, worst_ms: Median and largest wall time of a proposal.
    """

    space: str
    to_5: float
    to_1: float
    checkpoints: tuple[int, ...]
    ratios: tuple[float, ...]
    found: float
    proposal_ms: float
    worst_ms: float


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


def simulate(space: Recorded, sampler: str, trials: int, seed: int, batch: int = 1) -> Curve:
    """Search a recorded space; what comes after its optimum is not replayed.

    Raises:
        UsageError: An unknown sampler, or fewer than one trial or proposal at a time.
    """
    for name, number in (("trials", trials), ("batch", batch)):
        if number < 1:
            raise UsageError(f"{name} is {number}; at least 1 is needed")
    searcher = make_sampler(sampler, space.candidates, seed)
    times: list[float] = []
    proposals: list[float] = []
    while len(times) < trials and space.best not in times:
        started = time.perf_counter()
        rows = searcher.propose(min(batch, trials - len(times)))
        if not rows:
            break
        proposals += [(time.perf_counter() - started) / len(rows)] * len(rows)
        times += space.seconds[rows].tolist()
        for row in rows:
            measured = float(space.measured[row])
            searcher.observe(row, None if np.isnan(measured) else measured, noise=float(space.told_noise[row]))
    reached = np.minimum.accumulate(np.nan_to_num(np.array(times), nan=np.inf))
    ratios = np.concatenate([reached, np.full(trials - len(times), reached[-1])]) / space.best
    return Curve(ratios=ratios, proposals=np.array(proposals))


def summarise(space: Recorded, curves: Sequence[Curve]) -> Score:
    """Condense the curves of several seeds on one space; a search without a success stands at the slowest time."""
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
    )


def table(summary: Summary) -> str:
    """Return the scores as aligned text, the geometric means last."""
    width = max(len("geometric mean"), *(len(score.space) for score in summary.scores))
    points = summary.scores[0].checkpoints
    head = (
        f"{'space':{width}}  to 5%  to 1%  " + "".join(f"  at {point:<3}" for point in points) + "  found     ms  worst"
    )
    lines = [f"{summary.sampler}, {summary.seeds} seeds, {summary.trials} trials, {summary.batch} at a time", head]
    for score in summary.scores:
        ratios = "".join(f"  {ratio:6.3f}" for ratio in score.ratios)
        lines.append(
            f"{score.space:{width}} {score.to_5:6.1f} {score.to_1:6.1f}  {ratios}"
            f"   {score.found:4.0%} {score.proposal_ms:6.1f} {score.worst_ms:6.0f}"
        )
    ratios = "".join(f"  {ratio:6.3f}" for ratio in summary.ratios)
    lines.append(f"{'geometric mean':{width}} {summary.to_5:6.1f} {summary.to_1:6.1f}  {ratios}   (ratios: mean)")
    return "\n".join(lines)


def plot(curves: Sequence[Curve], width: int = 60, height: int = 10) -> str:
    """Draw the median best-so-far curve: ratio to the optimum over evaluations."""
    ratios = np.minimum(np.median(np.stack([curve.ratios for curve in curves]), axis=0), 1e3)
    columns = np.linspace(0, len(ratios) - 1, min(width, len(ratios))).astype(int)
    levels = np.linspace(max(1.05, min(3.0, float(ratios[0]))), 1.0, height)
    rows = []
    for level, below in zip(levels, [*levels[1:], 0.0], strict=True):
        marks = "".join("*" if below < min(ratio, levels[0]) <= level else " " for ratio in ratios[columns])
        rows.append(f"{level:6.2f} |{marks}".rstrip())
    return "\n".join([*rows, f"{'':6} +{'-' * len(columns)}", f"{'':8}1{len(ratios):>{len(columns) - 1}} evaluations"])


def replay(
    paths: Sequence[Path], sampler: str, trials: int, seeds: int, batch: int
) -> tuple[Summary, list[list[Curve]]]:
    """Run a sampler on several recordings with the seeds 0, 1, ..."""
    if seeds < 1:
        raise UsageError(f"seeds is {seeds}; at least 1 is needed")
    spaces = [load_recorded(path) for path in paths]
    curves = [[simulate(space, sampler, trials, seed, batch) for seed in range(seeds)] for space in spaces]
    scores = tuple(summarise(space, runs) for space, runs in zip(spaces, curves, strict=True))
    return Summary(sampler=sampler, trials=trials, seeds=seeds, batch=batch, scores=scores), curves


def main() -> None:
    """Parse the command line, replay, and print the table or JSON."""
    import argparse
    import dataclasses
    import json
    import sys

    parser = argparse.ArgumentParser(prog="python -m tuner.search.simulate", description=main.__doc__)
    parser.add_argument("spaces", nargs="+", type=Path, metavar="SPACE")
    parser.add_argument("--sampler", default="surrogate")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", action="store_true")
    given = parser.parse_args()
    try:
        summary, curves = replay(given.spaces, given.sampler, given.trials, given.seeds, given.batch)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    if given.json:
        means = {"to_5": summary.to_5, "to_1": summary.to_1, "ratios": summary.ratios}
        print(json.dumps({**dataclasses.asdict(summary), "geometric_mean": means}))
        return
    print(table(summary))
    if given.plot:
        for score, runs in zip(summary.scores, curves, strict=True):
            print(f"\n{score.space}\n{plot(runs)}")


if __name__ == "__main__":
    main()
