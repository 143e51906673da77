"""A sampler that shares its proposals with a surrogate that knows a source study."""

from __future__ import annotations

from tuner.search.samplers.base import PoolSampler
from tuner.search.samplers.surrogate import SurrogateSampler
from tuner.search.samplers.transfer import TransferPrior


class WarmSampler:
    """Serves proposals of ``inner``, and of a guided surrogate with the probability that its source is useful."""

    def __init__(self, inner: PoolSampler, guided: SurrogateSampler, source: TransferPrior) -> None:
        self.inner, self._guided, self._source = inner, guided, source

    @property
    def left(self) -> int:
        return self.inner.left

    def propose(self, count: int) -> list[int]:
        rows: list[int] = []
        while len(rows) < count and self.inner.left:
            leads = self._guided.random.random() < self._source.weight
            ours, other = (self._guided, self.inner) if leads else (self.inner, self._guided)
            (row,) = ours.propose(1)
            other.take(row)
            other.pending[row] = None
            rows.append(row)
        return rows

    def observe(self, index: int, seconds: float | None, *, noise: float = 0.0, pruned: bool = False) -> None:
        for sampler in (self.inner, self._guided):
            sampler.observe(index, seconds, noise=noise, pruned=pruned)

    def skip(self, index: int) -> None:
        for sampler in (self.inner, self._guided):
            sampler.skip(index)

    def has_some(self, hurry: bool = False) -> bool:
        return True

    def close(self) -> None:
        return
