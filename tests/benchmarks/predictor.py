"""How well resources are predicted before compiling, and what that spares. Needs nvcc, or a store of a GPU's studies.

    python tests/benchmarks/predictor.py --layer fa17/conv1 --count 200  # random configurations, ptxas for sm_90a
    python tests/benchmarks/predictor.py --storage sqlite:///studies/tuner.db  # the trials of CUDA studies, in order

Every configuration's resources are known here, those of the dropped ones too, so wrong drops are counted, not sampled.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import support_path  # noqa: F401
from ptxas import compile_all
from templates import CUDA_LIMITS

from tuner.devices.cuda_driver import arch_of
from tuner.kernels.loading import builtin_templates
from tuner.kernels.render import render
from tuner.kernels.space import Space, enumerate_space
from tuner.kernels.template import CUDA
from tuner.problems.conv.layers import LAYERS, find_layer
from tuner.problems.problem import Problem
from tuner.results import Evaluation, Resources, Result
from tuner.search.candidates import Candidates
from tuner.search.resource_model import resident_warps
from tuner.tuning.resource_filter import IDLE, LEAST_WARPS, SPILLED_BYTES, SPILLS, ResourceFilter

TEMPLATES = builtin_templates()
COLUMNS = ("layer", "trials", "hopeless", "dropped", "wrong", "missed", "median", "90%", "warps right", "ms each")


def space_of(layer: Problem) -> Space:
    return enumerate_space(list(TEMPLATES.values()), layer, CUDA_LIMITS)


def compiled(space: Space, count: int) -> list[Result]:
    """Compile random configurations, as many of each template."""
    rng, chosen = random.Random(space.problem.name), []
    for part in space.parts:
        chosen += [part.configuration(rng.randrange(len(part))) for _ in range(count // len(space.parts))]
    rng.shuffle(chosen)
    sources = [render(space.template(each.template), each, space.problem, CUDA).source for each in chosen]
    with tempfile.TemporaryDirectory() as folder:
        used = compile_all(sources, arch_of(9, 0), Path(folder))
    results = []
    for configuration, each in zip(chosen, used, strict=True):
        assert each.code == 0, f"{configuration}:\n{each.log}"
        resources = Resources(registers=each.registers, local_bytes=each.frame)
        compiled = Evaluation(outcome="ok", resources=resources)
        results.append(Result(configuration=configuration, fingerprint="", evaluation=compiled))
    return results


def stored(url: str) -> list[tuple[Problem, list[Result]]]:
    from tuner.storage import Store

    with Store.open(url, create=False) as store:
        handles = [store.find_study(each.name) for each in store.studies() if each.key.device_kind == CUDA]
        return [(handle.problem, [each for _, each in sorted(handle.numbered().items())]) for handle in handles]


def hopeless(space: Space, result: Result) -> str:
    """Return what is wrong with a compiled configuration, or nothing."""
    launch = space.template(result.configuration.template).launch_of(result.configuration, space.problem)
    if resident_warps(launch, result.resources.registers or 1, CUDA_LIMITS) < LEAST_WARPS:
        return IDLE
    return SPILLS if (result.resources.local_bytes or 0) > SPILLED_BYTES else ""


def judge(problem: Problem, results: Sequence[Result]) -> tuple[str, ...]:
    """Offer results one by one, as a sampler would propose them; the dropped ones teach nothing."""
    space = space_of(problem)
    resource_filter = ResourceFilter(space, Candidates.of(space))
    dropped, wrong, missed, offered, bad = 0, 0, 0, 0, 0
    started = time.process_time()
    for result in results:
        index = space.find(result.configuration)
        if index is None or result.resources.registers is None:
            continue  # the space has changed since
        truth = hopeless(space, result)
        kept = resource_filter.keep([index])
        offered, bad, dropped = offered + 1, bad + bool(truth), dropped + (not kept)
        wrong += not kept and not truth
        missed += bool(kept) and bool(truth)
        if kept:
            resource_filter.learn(index, result)
    spent, seen = 1e3 * (time.process_time() - started) / max(offered, 1), resource_filter.stats
    kinds = f"{dropped} ({seen.dropped[SPILLS]} spills)"
    errors = ("-", "-", "-")
    if seen.errors:
        right = f"{seen.warps_right / len(seen.errors):.0%}"
        errors = (f"{seen.median_error:.1f}", f"{seen.error_of_90_percent:.0f}", right)
    return (problem.name, str(offered), str(bad), kinds, str(wrong), str(missed), *errors, f"{spent:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", action="append", help=f"default: all of {', '.join(LAYERS)}")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--storage", help="judge by the studies of a store instead")
    asked = parser.parse_args()
    if asked.storage:
        cases = stored(asked.storage)
    else:
        layers = [find_layer(name) for name in asked.layer or LAYERS]
        cases = [(layer, compiled(space_of(layer), asked.count)) for layer in layers]
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    for layer, results in sorted(cases, key=lambda case: case[0].name):
        print("| " + " | ".join(judge(layer, results)) + " |")


if __name__ == "__main__":
    main()
