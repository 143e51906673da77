"""Candidates without a kernel, and a sampler that knows some results."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tuner.search.candidates import Axis, Candidates
from tuner.search.samplers.base import Sampler
from tuner.search.samplers.factory import make_sampler


def product(sizes: Sequence[int], templates: int = 1) -> Candidates:
    """All combinations of parameters with 1, 2, ... choices, dealt out to several templates."""
    rows = np.array(list(itertools.product(*(range(size) for size in sizes))), dtype=np.uint8).reshape(-1, len(sizes))
    return Candidates(
        axes=tuple(Axis(f"P{column}", tuple(range(1, size + 1))) for column, size in enumerate(sizes)),
        choices=rows,
        groups=(np.arange(len(rows)) % templates).astype(np.uint8),
        names=tuple(f"t{number}" for number in range(templates)),
    )


def resumed(sizes: tuple[int, ...], told: int) -> tuple[Sampler, list[int]]:
    """Return a sampler that was told of so many results, and their rows."""
    candidates = product(sizes)
    random = np.random.default_rng(0)
    rows = random.choice(len(candidates), told, replace=False).tolist()
    sampler = make_sampler("surrogate", candidates, 0)
    for row in rows:
        sampler.observe(row, float(np.exp(random.normal())))
    return sampler, rows
