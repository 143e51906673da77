"""Replay recorded spaces, and count the evaluations a sampler needs: the work of ``tune simulate``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.errors import UsageError
from tuner.recordings.scores import Curve, Summary, summarise
from tuner.recordings.space import Recorded, load_recorded
from tuner.search.arrays import Indices
from tuner.search.observations import Observations
from tuner.search.samplers.base import Sampler
from tuner.search.samplers.factory import SAMPLERS, make_sampler, warm_started
from tuner.search.translate import MIN_SHARED, translate
from tuner.suggestions import alternatives


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which searches to run on each space.

    Attributes:
        seeds: How many: 0, 1, ...
        batch: Proposals evaluated at once.
        noise: Give each search noisy times, as recorded; score the true ones.
        source: A recording whose results each search begins with.

    Raises:
        UsageError: Nothing to do, or an unknown sampler.
    """

    sampler: str = SAMPLERS[0]
    trials: int = 200
    seeds: int = 5
    batch: int = 1
    noise: bool = False
    source: Recorded | None = None

    def __post_init__(self) -> None:
        for name in ("trials", "seeds", "batch"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} {getattr(self, name)}: nothing to replay; at least 1 is needed")
        if self.sampler not in SAMPLERS:
            raise UsageError(f"sampler '{self.sampler}' is unknown; {alternatives(self.sampler, SAMPLERS)}")


def simulate(space: Recorded, sampler: str, trials: int, seed: int, batch: int = 1) -> Curve:
    """Search a recorded space; stops once the optimum is found.

    Raises:
        UsageError: An unknown sampler.
    """
    return search(space, make_sampler(sampler, space.candidates, seed), trials, batch)


def search(space: Recorded, sampler: Sampler, trials: int, batch: int = 1) -> Curve:
    """Give a sampler the results of a recorded space until its optimum is found."""
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


def replay(
    paths: Sequence[Path], sampler: str, trials: int, seeds: int, batch: int
) -> tuple[Summary, list[list[Curve]]]:
    """Run a sampler on several recordings with the seeds 0, 1, ..."""
    plan = Plan(sampler=sampler, trials=trials, seeds=seeds, batch=batch)
    return follow(plan, [load_recorded(path) for path in paths])


def follow(plan: Plan, spaces: Sequence[Recorded]) -> tuple[Summary, list[list[Curve]]]:
    """Run the searches of a plan on each space.

    Raises:
        UsageError: The plan's source recording has nothing in common with a space.
    """
    curves = []
    for space in spaces:
        source = None if plan.source is None else transferred(plan.source, space)
        curves.append([_one(plan, space, source, seed) for seed in range(plan.seeds)])
    scores = tuple(summarise(space, runs) for space, runs in zip(spaces, curves, strict=True))
    summary = Summary(sampler=plan.sampler, trials=plan.trials, seeds=plan.seeds, batch=plan.batch, scores=scores)
    return summary, curves


def _one(plan: Plan, space: Recorded, source: Observations | None, seed: int) -> Curve:
    inner = make_sampler(plan.sampler, space.candidates, seed)
    sampler = inner if source is None else warm_started(inner, source, seed)
    return search(space.noisy(seed) if plan.noise else space, sampler, plan.trials, plan.batch)


def transferred(source: Recorded, space: Recorded) -> Observations:
    """Return a recording's results by the rows of another space.

    Raises:
        UsageError: Too few of its configurations are there.
    """
    found = translate(source.candidates, measured_rows(source, np.arange(len(source.candidates))), space.candidates)
    if len(found) < MIN_SHARED:
        raise UsageError(
            f"--warm-start {source.name}: {len(found)} of its {len(source.candidates):,} configurations are in "
            f"{space.name}; at least {MIN_SHARED} are needed, so give one of the same kernel"
        )
    return found


def measured_rows(space: Recorded, rows: Indices) -> Observations:
    """Return the results of some rows, without the failures."""
    good = rows[~np.isnan(space.seconds[rows])]
    variances = space.noise[good] ** 2 + 0.01 * space.pruned[good]
    return Observations.of(rows=good, values=np.log(space.seconds[good]), variances=variances)
