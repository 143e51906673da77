"""Rerun the search's figures on recorded spaces, beside what its peers need there: all seeds, no picking.

    python tests/benchmarks/search.py ../shared/spaces/*.csv.gz --seeds 20 --jobs 2 [--held-out] [--json]

``surrogate`` is the sampler as it ships, ``plain`` the same without the figures that our templates derive. With
``--held-out`` every kernel is searched with expectations fitted on the spaces of the *other* kernels alone (a kernel
is the first word of a space's name). ``tpe`` is Optuna's best sampler here, kept to valid and unseen configurations
free of charge; ``annealing`` is Kernel Tuner's best strategy in its own simulation, where it is installed. A search
ends when it is within 1%, but not before ``--least`` evaluations.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tuner.recordings.scores import Curve, Summary, summarise, table
from tuner.recordings.space import Recorded, load_recorded
from tuner.search.gp import likelihood
from tuner.search.gp.kernel import Kernel, Normal, Prior
from tuner.search.samplers.base import Sampler
from tuner.search.samplers.factory import make_sampler
from tuner.search.samplers.settings import Settings
from tuner.search.samplers.surrogate import SurrogateSampler

KINDS = ("number", "valuation", "exact", "flag", "word", "volume")
TARGETS = {1: (22.0, 35.0), 8: (22.0, 42.0)}  # evaluations to 5% and to 1%, by batch
WIDE = Prior.same(length=(-0.7, 2.0), share=(0.0, 2.5), exact=(-1.0, 2.5), noise=(-5.0, 3.0))
LEAST_DEVIATION = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One search: which method, on which space, from which seed."""

    method: str
    path: Path
    seed: int
    batch: int
    trials: int
    least: int
    prior: Prior | None = None


@cache
def space_of(path: Path) -> Recorded:
    return load_recorded(path)


def kernel_of(path: Path) -> str:
    return re.split(r"[-_.]", path.name)[0]


def run(job: Job) -> Curve:
    space = space_of(job.path)
    if job.method == "annealing":
        times = annealing(space, job)
    elif job.method in ("surrogate", "plain"):
        candidates = replace(space.candidates, figures=None) if job.method == "plain" else space.candidates
        times = replayed(space, SurrogateSampler(candidates, job.seed, Settings(prior=job.prior or Prior())), job)
    else:
        times = replayed(space, make_sampler(job.method, space.candidates, job.seed), job)
    reached = np.minimum.accumulate(np.nan_to_num(np.array(times), nan=np.inf))
    ratios = np.concatenate([reached, np.full(job.trials - len(times), reached[-1])]) / space.best
    return Curve(ratios=ratios, proposals=np.zeros(len(times)))


def replayed(space: Recorded, sampler: Sampler, job: Job) -> list[float]:
    times: list[float] = []
    best = np.inf
    while len(times) < job.trials and not (best <= 1.01 * space.best and len(times) >= job.least):
        rows = sampler.propose(min(job.batch, job.trials - len(times)))
        if not rows:
            break
        for row in rows:
            seconds = float(space.seconds[row])
            times.append(seconds)
            failed = np.isnan(seconds)
            sampler.observe(row, None if failed else seconds)
            best = best if failed else min(best, seconds)
    return times


def annealing(space: Recorded, job: Job) -> list[float]:
    """Search with Kernel Tuner's simulated annealing; it proposes one at a time whatever the batch.

    Kernel Tuner lists a configuration again each time it comes back to it: only the first counts, as in its own budget.
    A schedule ends at three quarters of its budget: another begins then, from another start.
    """
    import kernel_tuner
    from constraint import FunctionConstraint  # which Kernel Tuner brings

    names = [axis.name for axis in space.candidates.axes]
    axes = {axis.name: list(axis.choices) for axis in space.candidates.axes}
    entries = {}
    for row, seconds in zip(space.candidates.choices, space.seconds.tolist(), strict=True):
        values = [axes[name][choice] for name, choice in zip(names, row, strict=True)]
        time = "RuntimeFailedConfig" if np.isnan(seconds) else seconds * 1e3
        entries[",".join(map(str, values))] = {**dict(zip(names, values, strict=True)), "time": time}
    header = {"device_name": "recorded", "kernel_name": "k", "problem_size": 1, "objective": "time"}
    text = json.dumps({**header, "tune_params_keys": names, "tune_params": axes, "cache": entries})
    random.seed(job.seed)
    np.random.seed(job.seed)
    found: dict[tuple[object, ...], float] = {}
    with tempfile.TemporaryDirectory() as folder, Silence():
        (Path(folder) / "cache.json").write_text(text)
        while len(found) < min(job.trials, len(entries)):
            results, _ = kernel_tuner.tune_kernel(
                "k", "", 1, [], axes, lang="C", simulation_mode=True, cache=f"{folder}/cache.json", quiet=True,
                restrictions=[FunctionConstraint(lambda *values: ",".join(map(str, values)) in entries)],
                strategy="simulated_annealing", strategy_options={"max_fevals": job.trials},
            )  # fmt: skip
            for result in results:
                time = result.get("time")
                seconds = time / 1e3 if isinstance(time, float) else np.nan
                found.setdefault(tuple(result[name] for name in names), seconds)
    return list(found.values())[: job.trials]


class Silence:
    """Keep Kernel Tuner's own lines off the output."""

    def __enter__(self) -> None:
        self._out, self._null = sys.stdout, open(os.devnull, "w")
        sys.stdout = self._null

    def __exit__(self, *_: object) -> None:
        sys.stdout = self._out
        self._null.close()


def fit(path: Path) -> dict[str, list[tuple[float, float]]]:
    """Fit the model to 250 results of one space, four in ten of them fast; return (length, share) by kind."""
    space, chance = space_of(path), np.random.default_rng(0)
    good = np.flatnonzero(~np.isnan(space.seconds))
    fast = good[np.argsort(space.seconds[good])[: max(len(good) // 5, 1)]]
    rows = np.unique([*chance.permutation(good)[:150].tolist(), *chance.permutation(fast)[:100].tolist()])
    raw = np.log(space.seconds[rows])
    middle = float(np.median(raw))
    reach = max(middle - float(raw.min()), 1e-9) * Settings().compress
    values = np.where(raw > middle, middle + reach * np.log1p(np.maximum(raw - middle, 0) / reach), raw)
    kernel, target = Kernel(space.candidates.model_features, WIDE), (values - values.mean()) / values.std()
    likelihood.fit(kernel, space.candidates.codes_of(rows), target, np.zeros(len(rows)), 60)
    count = len(kernel.features)
    found: dict[str, list[tuple[float, float]]] = {}
    for position, feature in enumerate(kernel.features):
        pair = float(kernel.theta[position]), float(kernel.theta[count + position])
        found.setdefault(feature.kind, []).append(pair)
    return found


def expectations(fits: list[dict[str, list[tuple[float, float]]]]) -> Prior:
    """Return normal priors of each kind with the mean and deviation of some fits; a kind they lack is a number."""
    kinds: dict[str, Any] = {}
    for kind in KINDS:
        pairs = np.array([pair for fitted in fits for pair in fitted.get(kind, fitted["number"])])
        middle, spread = pairs.mean(axis=0), np.maximum(pairs.std(axis=0), LEAST_DEVIATION)
        sides: list[Normal] = [(float(middle[side]), float(spread[side])) for side in (0, 1)]
        kinds[kind] = (sides[0], sides[1])
    return Prior(**kinds)


def held_out(paths: list[Path], jobs: int) -> dict[Path, Prior]:
    """Return for each space the expectations that the other kernels' spaces give."""
    with ProcessPoolExecutor(jobs) as pool:
        fits = dict(zip(paths, pool.map(fit, paths), strict=True))
    return {
        path: expectations([fits[other] for other in paths if kernel_of(other) != kernel_of(path)]) for path in paths
    }


def summaries(given: argparse.Namespace) -> Iterator[tuple[Summary, list[float]]]:
    """Yield each method's scores by batch, and its mean evaluations to 1% on each space."""
    priors = held_out(given.spaces, given.jobs) if given.held_out else {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for method in given.methods:
            for batch in given.batch if method != "annealing" else given.batch[:1]:
                jobs = [
                    Job(
                        method=method, path=path, seed=seed, batch=batch, trials=given.trials, least=given.least,
                        prior=priors.get(path),
                    )
                    for path in given.spaces for seed in range(given.first_seed, given.first_seed + given.seeds)
                ]  # fmt: skip
                curves = list(pool.map(run, jobs))
                runs = [curves[start : start + given.seeds] for start in range(0, len(curves), given.seeds)]
                scores = tuple(summarise(space_of(path), found) for path, found in zip(given.spaces, runs, strict=True))
                name = f"{method}, held out by kernel" if method == "surrogate" and given.held_out else method
                means = [float(np.mean([curve.reaches(0.01) for curve in found])) for found in runs]
                yield Summary(sampler=name, trials=given.trials, seeds=given.seeds, batch=batch, scores=scores), means


def verdict(summary: Summary, ours: Summary | None) -> str:
    """Say how a summary stands to the targets, or how many times what we need a peer needs."""
    if summary.sampler.startswith("surrogate"):
        to_5, to_1 = TARGETS.get(summary.batch, (float("nan"),) * 2)
        worst = max(score.to_1 for score in summary.scores)
        at = dict(zip(summary.scores[0].checkpoints, summary.ratios, strict=False)).get(50, float("nan"))
        return (
            f"to 5% {summary.to_5:.1f} (target {to_5:.0f}), to 1% {summary.to_1:.1f} (target {to_1:.0f}), "
            f"at 50 {at:.3f} (target 1.05), worst space {worst:.1f} (limit 150)"
        )
    if ours is None:
        return ""
    return f"{summary.to_1 / ours.to_1:.2f} times our evaluations to 1%, {summary.to_5 / ours.to_5:.2f} to 5%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="+", type=Path, metavar="SPACE")
    parser.add_argument("--methods", nargs="+", default=["surrogate", "tpe", "annealing"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--least", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if "annealing" in given.methods and find_spec("kernel_tuner") is None:
        given.methods.remove("annealing")
        print("kernel_tuner is not installed: its annealing is left out", file=sys.stderr)
    done: list[Summary] = []
    for summary, means in summaries(given):
        ours = next((one for one in done if one.sampler.startswith("surrogate") and one.batch == summary.batch), None)
        done.append(summary)
        if not given.json:
            print(f"{table(summary)}\n{verdict(summary, ours)}")
            print(f"mean evaluations to 1%: {' '.join(f'{mean:.1f}' for mean in means)}\n", flush=True)
    if given.json:
        print(json.dumps([{**asdict(one), "to_5": one.to_5, "to_1": one.to_1} for one in done]))


if __name__ == "__main__":
    main()
