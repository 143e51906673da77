"""What a warm start saves, and what a wrong source costs: ``python tests/benchmarks/warm_start.py FOLDER [--seeds 2]``.

Every two recordings of one kernel in FOLDER (``KERNEL_DEVICE.csv.gz``) are source and space. The source's results are
those of a search of 150 trials there; ``shuffled`` and ``reversed`` give them the times of others, or the inverse.
Printed are evaluations to within 1%, one at a time: for each seed, their geometric mean, that of the ratio to the same
seed without a source, and the share of searches that took at most 15.

With ``--siblings`` FOLDER holds recordings of layers (``LAYER-DEVICE.csv.gz``, as in ``studies``), and each is searched
with all results of every *other* layer, on whatever device: one by one, and all together. Its own layer's recordings,
also those of another device, have no part in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from tuner.recordings.simulate import measured_rows, search
from tuner.recordings.space import Recorded, load_recorded
from tuner.search.observations import Observations
from tuner.search.samplers.base import Sampler
from tuner.search.samplers.factory import make_sampler, warm_started
from tuner.search.translate import MIN_SHARED, translate

SHARED, TRIALS, SOON = 150, 200, 15
KINDS = ("none", "right", "shuffled", "reversed")


class Remembering:
    """A sampler that keeps what it proposed."""

    def __init__(self, inner: Sampler) -> None:
        self._inner, self.rows = inner, list[int]()
        self.observe, self.skip, self.has_some, self.close = inner.observe, inner.skip, inner.has_some, inner.close

    def propose(self, count: int) -> list[int]:
        fresh = self._inner.propose(count)
        self.rows += fresh
        return fresh


def searched(source: Recorded, space: Recorded, seed: int) -> Observations:
    """Search ``source``, and return what was measured by the rows of ``space``."""
    sampler = Remembering(make_sampler("surrogate", source.candidates, seed + 100))
    search(source, sampler, SHARED)
    return translate(source.candidates, measured_rows(source, np.array(sampler.rows)), space.candidates)


def spoilt(known: Observations, kind: str, seed: int) -> Observations | None:
    if kind == "none":
        return None
    if kind == "shuffled":
        return replace(known, values=np.random.default_rng(seed).permutation(known.values))
    return replace(known, values=-known.values) if kind == "reversed" else known


def pairs(folder: Path) -> Iterator[tuple[Recorded, Recorded]]:
    spaces = [(path.name.split("_")[0], load_recorded(path)) for path in sorted(folder.glob("*.csv.gz"))]
    for (kernel, source), (other, space) in permutations(spaces, 2):
        if kernel == other:
            yield source, space


def evaluations(space: Recorded, known: Observations | None, seed: int, batch: int = 1) -> int:
    cold = make_sampler("surrogate", space.candidates, seed)
    sampler = cold if known is None else warm_started(cold, known, seed)
    return search(space, sampler, TRIALS, batch).reaches(0.01)


def summary(found: list[int], without: list[int]) -> str:
    """Describe searches with a source beside those of the same space and seed without one."""
    ratio = geometric_mean(ours / theirs for ours, theirs in zip(found, without, strict=True))
    soon = np.mean([count <= SOON for count in found])
    return f"{geometric_mean(found):6.1f} evaluations to 1%, {ratio:5.2f} of none's, {soon:4.0%} within {SOON}"


def layer_of(space: Recorded) -> str:
    return space.name.rsplit("-", 1)[0]


def whole(source: Recorded, space: Recorded) -> Observations:
    """Return all results of ``source`` by the rows of ``space``, as logarithms of their ratio to its fastest."""
    rows = np.arange(len(source.candidates))
    found = translate(source.candidates, measured_rows(source, rows), space.candidates)
    return replace(found, values=found.values - np.log(source.best))


def together(sources: Collection[Observations]) -> Observations:
    """Return the results of several sources as one's; a row that several have counts with the mean."""
    rows, places = np.unique(np.concatenate([each.rows for each in sources]), return_inverse=True)
    count = np.bincount(places)
    values, variances = (
        np.bincount(places, np.concatenate([getattr(each, side) for each in sources])) / count
        for side in ("values", "variances")
    )
    return Observations.of(rows=rows, values=values, variances=variances)


def search_by_siblings(folder: Path, seeds: int, batches: list[int]) -> None:
    spaces = [load_recorded(path) for path in sorted(folder.glob("*.csv.gz"))]
    for space in spaces:
        others = {source.name: whole(source, space) for source in spaces if layer_of(source) != layer_of(space)}
        sources = {name: known for name, known in others.items() if len(known) >= MIN_SHARED}
        beginnings: dict[str, Observations | None] = {"none": None, **sources}
        if len(sources) > 1:
            beginnings["all together"] = together(sources.values())
        for batch in batches:
            print(f"{space.name}, {batch} at a time: evaluations to 1%, median of {seeds} seeds", flush=True)
            for name, known in beginnings.items():
                found = [evaluations(space, known, seed, batch) for seed in range(seeds)]
                print(f"  {name:18} {median(found):6.1f}  {sorted(found)}", flush=True)


def compare(folder: Path, seeds: int, kinds: list[str]) -> None:
    all_of: dict[str, list[int]] = {kind: [] for kind in kinds}
    for source, space in pairs(folder):
        knowns = [searched(source, space, seed) for seed in range(seeds)]
        if min(map(len, knowns)) < MIN_SHARED:
            continue
        counts = {
            kind: [evaluations(space, spoilt(known, kind, seed), seed) for seed, known in enumerate(knowns)]
            for kind in kinds
        }
        print(f"{source.name} -> {space.name}", flush=True)
        for kind, found in counts.items():
            print(f"  {kind:10} {summary(found, counts['none'])}: {found}", flush=True)
        for kind, found in counts.items():
            all_of[kind] += found
    for kind, found in all_of.items():
        if found:
            print(f"{kind:10} {summary(found, all_of['none'])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--siblings", action="store_true")
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8], help="proposals at a time, with --siblings")
    given = parser.parse_args()
    if given.siblings:
        search_by_siblings(given.folder, given.seeds, given.batch)
    else:
        compare(given.folder, given.seeds, list(dict.fromkeys(["none", *given.kinds])))


if __name__ == "__main__":
    main()
