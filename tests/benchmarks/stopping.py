"""When the default search ends by itself on recorded spaces, and what it had found: choose the rule by this.

    python tests/benchmarks/stopping.py [SPACE...] --seeds 10 --jobs 2 [--json]

Each search is the default one, ``--batch`` proposals out at once, on times as another search would have measured them:
the noise of each row is replayed, at most 1%, which is how well a run measures what may become its best. The rule is
the real one. Judged is what the finals would name: the truly fastest of the five that looked fastest when the rule
ended the search, over the space's optimum. The recordings here hold 1,666 to 2,562 rows, so the optimum is what 2,000
trials find. Searches that the rule never ends stop at ``--trials``.
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from tuner.recordings.space import Recorded, load_recorded
from tuner.search.arrays import Floats
from tuner.search.samplers.base import Sampler
from tuner.search.samplers.factory import make_sampler
from tuner.tuning.finals import FINALISTS
from tuner.tuning.gain import GainRule, History

OURS = sorted((Path(__file__).parents[2] / "studies").glob("*.csv.gz"))
MOST_NOISE = 0.01
SHARE, TRIALS = 0.9, 350  # to reach: searches within 1%, trials in the median


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How one search ended.

    Attributes:
        trials: When the rule ended it.
        found: When it first had what it ended with.
        ratio: What it ended with over the optimum.
        over: The rule ended it, not the budget.
    """

    trials: int
    found: int
    ratio: float
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    path: Path
    seed: int
    trials: int
    batch: int


def run(job: Job) -> Search:
    """Search until the rule says that it is over."""
    space = load_recorded(job.path)
    space = replace(space, noise=np.minimum(space.noise, MOST_NOISE)).noisy(job.seed)
    return searched(space, make_sampler("surrogate", space.candidates, job.seed), job.trials, job.batch)


def searched(space: Recorded, sampler: Sampler, trials: int, batch: int) -> Search:
    rule, waiting, rows, over = GainRule(space.candidates), deque[int](), list[int](), False
    while len(rows) < min(trials, len(space.candidates)) and not over:
        waiting.extend(sampler.propose(batch - len(waiting)))
        row = waiting.popleft()
        rows.append(row)
        measured = float(space.measured[row])
        seconds = None if np.isnan(measured) else measured
        sampler.observe(row, seconds, noise=float(space.noise[row]), pruned=bool(space.pruned[row]))
        over = rule.due(len(rows)) and judged(rule, space, rows)
    finalists = np.argsort(space.measured[rows])[:FINALISTS]  # failures last
    best = int(finalists[np.nanargmin(space.seconds[rows][finalists])])
    return Search(trials=len(rows), found=best + 1, ratio=float(space.seconds[rows[best]] / space.best), over=over)


def judged(rule: GainRule, space: Recorded, rows: list[int]) -> bool:
    values, tried = log_seconds(space, rows), np.array(rows)
    if np.isnan(values).all():
        return False
    variances = space.noise[tried] ** 2 + 0.01 * space.pruned[tried]
    least = max(MOST_NOISE, float(space.noise[rows[int(np.nanargmin(values))]]))
    history = History(rows=tried, values=values, variances=variances)
    return rule.look(history, least).over


def log_seconds(space: Recorded, rows: list[int]) -> Floats:
    return np.log(space.measured[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """All searches of one space.

    Attributes:
        within: Share of them within 1% of the optimum.
        early: Share of them that are 5% or more above it.
    """

    space: str
    trials: float
    least: int
    most: int
    found: float
    within: float
    early: float
    worst: float
    ended: float

    @classmethod
    def of(cls, space: str, searches: list[Search]) -> Score:
        return cls(
            space=space,
            trials=median(each.trials for each in searches),
            least=min(each.trials for each in searches),
            most=max(each.trials for each in searches),
            found=median(each.found for each in searches),
            within=float(np.mean([each.ratio <= 1.01 for each in searches])),
            early=float(np.mean([each.ratio > 1.05 for each in searches])),
            worst=max(each.ratio for each in searches),
            ended=float(np.mean([each.over for each in searches])),
        )

    def __str__(self) -> str:
        missed = "" if self.within >= SHARE and self.trials <= TRIALS else "  MISSED"
        return (
            f"{self.space:24s} {self.trials:6.0f} {self.least:6d} {self.most:6d} {self.found:6.0f} {self.within:6.0%} "
            f"{self.early:6.0%} {self.worst:6.3f} {self.ended:6.0%}{missed}"
        )


def scores(given: argparse.Namespace) -> Iterator[Score]:
    with ProcessPoolExecutor(given.jobs) as pool:
        for path in given.spaces:
            seeds = range(given.first_seed, given.first_seed + given.seeds)
            jobs = [Job(path=path, seed=seed, trials=given.trials, batch=given.batch) for seed in seeds]
            yield Score.of(path.name.removesuffix(".csv.gz"), list(pool.map(run, jobs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", type=Path, default=OURS, metavar="SPACE")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    print(f"{'space':24s} trials  least   most  found  to 1% off 5%  worst  ended")
    found = []
    for score in scores(given):
        found.append(score)
        print(score, flush=True)
    if given.json:
        print(json.dumps([asdict(score) for score in found]))


if __name__ == "__main__":
    main()
