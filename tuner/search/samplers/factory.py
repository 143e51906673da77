"""Samplers by name, alone or warm-started with a source study's results."""

from __future__ import annotations

from typing import Final

from tuner.errors import UsageError
from tuner.search.candidates import Candidates
from tuner.search.observations import Observations
from tuner.search.samplers.base import PoolSampler, Sampler
from tuner.suggestions import alternatives

SAMPLERS: Final = ("surrogate", "tpe", "anneal", "random", "grid")
QUICK: Final = ("anneal", "random", "grid")  # samplers that take microseconds a proposal


def make_sampler(name: str, candidates: Candidates, seed: int, hurried: bool = False) -> PoolSampler:
    """Construct a sampler by the name the user gives.

    Args:
        hurried: Trials take milliseconds: prefer a quick proposal to a deliberate one.

    Raises:
        UsageError: There is no sampler of this name.
    """
    match name:
        case "random":
            from tuner.search.samplers.random import RandomSampler

            return RandomSampler(candidates, seed)
        case "grid":
            from tuner.search.samplers.random import GridSampler

            return GridSampler(candidates, seed)
        case "tpe":
            from tuner.search.samplers.tpe import TpeSampler

            return TpeSampler(candidates, seed)
        case "anneal":
            from tuner.search.samplers.anneal import AnnealSampler

            return AnnealSampler(candidates, seed)
        case "surrogate":
            from tuner.search.samplers.pool import ALL
            from tuner.search.samplers.settings import HURRIED
            from tuner.search.samplers.surrogate import SurrogateSampler

            return SurrogateSampler(candidates, seed, HURRIED if hurried and len(candidates) > ALL else None)
    raise UsageError(f"sampler '{name}' is unknown; {alternatives(name, SAMPLERS)}")


def warm_started(inner: PoolSampler, source: Observations, seed: int) -> Sampler:
    """Return a fresh sampler, warm-started with a source's results.

    The source's fastest results are tried first, with a random trial between them to test it against. From then on a
    surrogate knows the source's prediction of every time and weighs it by its evidence; see
    :mod:`tuner.search.samplers.transfer`. A sampler other than the surrogate makes the rest of the proposals.
    """
    from tuner.search.samplers.surrogate import SurrogateSampler
    from tuner.search.samplers.transfer import TransferPrior
    from tuner.search.samplers.warm import WarmSampler

    prior = TransferPrior(inner.candidates, source)
    settings = inner.settings if isinstance(inner, SurrogateSampler) else None
    guided = SurrogateSampler(inner.candidates, seed, settings, prior)
    return guided if isinstance(inner, SurrogateSampler) else WarmSampler(inner, guided, prior)


def sampler_for_run(name: str, candidates: Candidates, seed: int, source: Observations | None) -> Sampler:
    """Return a sampler for trials that take milliseconds, with a source's results if there are any."""
    sampler = make_sampler(name, candidates, seed, hurried=True)
    return warm_started(sampler, source, seed) if source else sampler
