"""Replay recorded spaces, and count the evaluations a sampler needs: the work of ``tune simulate``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from tuner.errors import UsageError
from tuner.nearest import alternatives
from tuner.search.candidates import Floats, Indices
from tuner.search.model import Known
from tuner.search.recorded import Recorded, load_recorded
from tuner.search.samplers import SAMPLERS, Sampler, make_sampler
from tuner.search.warm import FEWEST, transfer, warmed

CHECKPOINTS = (20, 50, 100, 200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which searches to make of each space.

    Attributes:
        seeds: How many: 0, 1, ...
        batch: Proposals out at once.
        noise: Tell each search times as it would have measured them; the truth is judged.
        donor: A recording whose results each search begins with.

    Raises:
        UsageError: Nothing to do, or an unknown sampler.
    """

    sampler: str = SAMPLERS[0]
    trials: int = 200
    seeds: int = 5
    batch: int = 1
    noise: bool = False
    donor: Recorded | None = None

    def __post_init__(self) -> None:
        for name in ("trials", "seeds", "batch"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} {getattr(self, name)}: nothing to replay; at least 1 is needed")
        if self.sampler not in SAMPLERS:
            raise UsageError(f"sampler '{self.sampler}' is unknown; {alternatives(self.sampler, SAMPLERS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One search on a recorded space.

    Attributes:
        ratios: Best time so far over the optimum after each evaluation; infinite before the first success.
        proposals: Wall seconds of each proposal; a batch's are shared out evenly.
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
        """Return the seconds of compiling until then, or of the whole search if never."""
        return float(self.compiling[min(self.reaches(share), len(self.compiling)) - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A sampler on one space over several seeds.

    Attributes:
        to_5, to_1: Median evaluations to within 5% and 1%; a miss counts one more than all trials.
        ratios: Mean best over optimum at each of ``checkpoints``.
        found: Share of the seeds within 1% at the end.
        proposal_ms, worst_ms: Median and largest wall time of a proposal.
        compile_s: Median seconds of compiling to within 1%, one at a time; 0 where it was not recorded.
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


def simulate(space: Recorded, sampler: str, trials: int, seed: int, batch: int = 1) -> Curve:
    """Search a recorded space; what comes after its optimum is not replayed.

    Raises:
        UsageError: An unknown sampler.
    """
    return search(space, make_sampler(sampler, space.candidates, seed), trials, batch)


def search(space: Recorded, sampler: Sampler, trials: int, batch: int = 1) -> Curve:
    """Serve a sampler with the results of a recorded space until its optimum was found."""
    tried: list[int] = []
    proposals: list[float] = []
    while len(tried) < trials and space.best not in space.seconds[tried]:
        started = time.perf_counter()
        rows = sampler.propose(min(batch, trials - len(tried)))
        if not rows:
            break
        proposals += [(time.perf_counter() - started) / len(rows)] * len(rows)
        tried += rows
        for row in rows:
            _tell(sampler, space, row)
    reached = np.minimum.accumulate(np.nan_to_num(space.seconds[tried], nan=np.inf))
    ratios = np.concatenate([reached, np.full(trials - len(tried), reached[-1])]) / space.best
    compiling = np.cumsum(space.compile_seconds[tried])
    return Curve(ratios=ratios, proposals=np.array(proposals), compiling=compiling)


def _tell(sampler: Sampler, space: Recorded, row: int) -> None:
    measured = float(space.measured[row])
    seconds = None if np.isnan(measured) else measured
    sampler.observe(row, seconds, noise=float(space.told_noise[row]), pruned=bool(space.pruned[row]))


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
        compile_s=float(median(curve.compiled(0.01) for curve in curves)),
    )


def table(summary: Summary, compile_times: bool = False) -> str:
    """Return the scores as aligned text, the geometric means last."""
    width = max(len("geometric mean"), *(len(score.space) for score in summary.scores))
    points = summary.scores[0].checkpoints
    head = (
        f"{'space':{width}}  to 5%  to 1%  " + "".join(f"  at {point:<3}" for point in points) + "  found     ms  worst"
    )
    lines = [f"{summary.sampler}, {summary.seeds} seeds, {summary.trials} trials, {summary.batch} at a time"]
    lines.append(head + "  compile s" * compile_times)
    for score in summary.scores:
        ratios = "".join(f"  {ratio:6.3f}" for ratio in score.ratios)
        lines.append(
            f"{score.space:{width}} {score.to_5:6.1f} {score.to_1:6.1f}  {ratios}"
            f"   {score.found:4.0%} {score.proposal_ms:6.1f} {score.worst_ms:6.0f}"
            + f"  {score.compile_s:9.1f}"
            * compile_times
        )
    ratios = "".join(f"  {ratio:6.3f}" for ratio in summary.ratios)
    lines.append(f"{'geometric mean':{width}} {summary.to_5:6.1f} {summary.to_1:6.1f}  {ratios}   (ratios: mean)")
    return "\n".join(lines)


def replay(
    paths: Sequence[Path], sampler: str, trials: int, seeds: int, batch: int
) -> tuple[Summary, list[list[Curve]]]:
    """Run a sampler on several recordings with the seeds 0, 1, ..."""
    plan = Plan(sampler=sampler, trials=trials, seeds=seeds, batch=batch)
    return follow(plan, [load_recorded(path) for path in paths])


def follow(plan: Plan, spaces: Sequence[Recorded]) -> tuple[Summary, list[list[Curve]]]:
    """Make the searches of a plan on each space.

    Raises:
        UsageError: The plan's donor has nothing in common with a space.
    """
    curves = []
    for space in spaces:
        donor = None if plan.donor is None else donated(plan.donor, space)
        curves.append([_one(plan, space, donor, seed) for seed in range(plan.seeds)])
    scores = tuple(summarise(space, runs) for space, runs in zip(spaces, curves, strict=True))
    summary = Summary(sampler=plan.sampler, trials=plan.trials, seeds=plan.seeds, batch=plan.batch, scores=scores)
    return summary, curves


def _one(plan: Plan, space: Recorded, donor: Known | None, seed: int) -> Curve:
    sampler = make_sampler(plan.sampler, space.candidates, seed)
    if donor is not None:
        sampler = warmed(sampler, donor, seed)
    return search(space.noisy(seed) if plan.noise else space, sampler, plan.trials, plan.batch)


def donated(donor: Recorded, space: Recorded) -> Known:
    """Return a recording's results by the rows of another space.

    Raises:
        UsageError: Too few of its configurations are there.
    """
    found = transfer(donor.candidates, measured_rows(donor, np.arange(len(donor.candidates))), space.candidates)
    if len(found) < FEWEST:
        raise UsageError(
            f"donor {donor.name}: {len(found)} of its {len(donor.candidates):,} configurations are in {space.name}; at "
            f"least {FEWEST} are needed, so give one of the same kernel"
        )
    return found


def measured_rows(space: Recorded, rows: Indices) -> Known:
    """Return the results of some rows, without the failures."""
    good = rows[~np.isnan(space.seconds[rows])]
    variances = space.noise[good] ** 2 + 0.01 * space.pruned[good]
    return Known(rows=good, values=np.log(space.seconds[good]), variances=variances)
