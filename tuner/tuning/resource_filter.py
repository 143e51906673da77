"""Defer proposals that are hopeless by the resources they would use, so that they are not compiled.

Hopeless means never observed near the best: on an H100, in 2,356 verified trials on five layers, nothing that kept more
than 128 bytes a thread in local memory came within 1.40 times its layer's fastest, and nothing with fewer than 4 warps
on a multiprocessor, one for each of its schedulers, within 1.69 times.

Spills are predicted, and the predictions used only while they prove right after compiling. Every eighth hopeless
proposal is compiled anyway as an audit. Deferred proposals come last, when nothing else is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuner.errors import Infeasible
from tuner.kernels.configuration import Configuration
from tuner.kernels.launch import Launch
from tuner.kernels.limits import CUDA, DeviceLimits
from tuner.kernels.space import Space
from tuner.results import Result
from tuner.search.candidates import Candidates
from tuner.search.resource_model import Demand, demand_of, register_limit, resident_warps

SPILLED_BYTES = 128
LEAST_WARPS = 4
LEAST_KNOWN = 24
COMPARED = 60  # latest predictions that decide whether they are trusted
MOST_ERROR = 0.6  # largest 90th percentile of the errors, in log2: a factor of 1.5
AUDIT_EVERY = 8
SPILLS = "spills"
IDLE = "idle"


@dataclass(slots=True)
class FilterStats:
    """How accurate a run's predictions were.

    Attributes:
        dropped: Deferred proposals by reason: ``spills``, ``idle`` (schedulers without a warp).
        errors: Registers, predicted less compiled, of every configuration predicted before it was compiled.
        warps_right: How many of those have as many resident warps as predicted.
        tried: Configurations predicted to be hopeless, but compiled anyway as an audit.
        wrong: How many of them were mispredicted.
        fastest: Shortest time in seconds of the tried ones; infinite if there is none.
    """

    dropped: dict[str, int] = field(default_factory=lambda: {SPILLS: 0, IDLE: 0})
    errors: list[float] = field(default_factory=list)
    warps_right: int = 0
    tried: int = 0
    wrong: int = 0
    fastest: float = float("inf")

    @property
    def median_error(self) -> float:
        return float(np.median(np.abs(self.errors)))

    @property
    def error_of_90_percent(self) -> float:
        return float(np.quantile(np.abs(self.errors), 0.9))


@dataclass(frozen=True, slots=True)
class _Forecast:
    """The prediction for a configuration: demand and its logarithm (None: unknown), and why it is hopeless."""

    demand: float | None
    why: str


class ResourceFilter:
    """Keeps the promising proposals; does nothing on a device without registers."""

    def __init__(self, space: Space, candidates: Candidates) -> None:
        self._space = space
        self._on = len(space) > 0 and space.parts[0].limits.dialect == CUDA
        self._demand = Demand(candidates) if self._on else None
        self._forecasts: dict[int, _Forecast] = {}
        self._recent: deque[float] = deque(maxlen=COMPARED)
        self._put_off: deque[int] = deque()
        self._hopeless = 0
        self.stats = FilterStats()

    def keep(self, proposed: Sequence[int]) -> list[int]:
        """Return the proposals to compile; the others are deferred."""
        if not proposed or not self._on:
            return list(proposed)
        kept = []
        for index, forecast in zip(proposed, self._expect(proposed), strict=True):
            if forecast.why and self._trusted(forecast.why) and not self._audited():
                self._put_off.append(index)
                self.stats.dropped[forecast.why] += 1
            else:
                kept.append(index)
                self._forecasts[index] = forecast
        return kept

    def put_off(self, count: int) -> list[int]:
        """Return deferred proposals, oldest first."""
        return [self._put_off.popleft() for _ in range(min(count, len(self._put_off)))]

    def learn(self, index: int, result: Result) -> None:
        """Compare a compiled configuration with its prediction, and update the model."""
        demand = demand_of(result.resources)
        if self._demand is None or demand is None or result.resources.registers is None:
            return
        forecast = self._forecasts.pop(index, None)
        if forecast:
            self._compare(index, forecast, demand, result)
        self._demand.learn(index, demand)

    def _compare(self, index: int, forecast: _Forecast, demand: float, result: Result) -> None:
        seen, spilled = self.stats, result.resources.local_bytes or 0
        warps = self._warps(index, demand)
        if forecast.demand is not None:
            self._recent.append(abs(float(np.log2(forecast.demand / demand))))
            seen.errors.append(forecast.demand - demand)
            seen.warps_right += self._warps(index, forecast.demand) == warps
        if forecast.why:
            seen.tried += 1
            seen.wrong += spilled <= SPILLED_BYTES and warps >= LEAST_WARPS
            seen.fastest = min(seen.fastest, result.seconds)

    def _trusted(self, why: str) -> bool:
        """Whether the predictions that could be verified were good enough to rely on."""
        if why == IDLE:
            return True  # shared memory and threads are known, not predicted
        close = len(self._recent) >= LEAST_KNOWN and float(np.quantile(self._recent, 0.9)) <= MOST_ERROR
        return close and self.stats.wrong <= 1 + self.stats.tried // 4

    def _audited(self) -> bool:
        self._hopeless += 1
        return self._hopeless % AUDIT_EVERY == 1

    def _expect(self, proposed: Sequence[int]) -> Iterator[_Forecast]:
        assert self._demand is not None
        if len(self._demand) < LEAST_KNOWN:
            for index in proposed:
                yield _Forecast(None, IDLE if self._warps(index, 1) < LEAST_WARPS else "")
            return
        for index, mean, deviation in zip(proposed, *self._demand.predict(proposed), strict=True):
            surely = 2 ** (mean - deviation)
            spills = surely > self._limit(index) + SPILLED_BYTES / 4
            idle = self._warps(index, 1) < LEAST_WARPS
            yield _Forecast(2**mean, IDLE if idle else SPILLS if spills else "")

    def _limit(self, index: int) -> int:
        configuration, launch, limits = self._launch(index)
        return register_limit(configuration, launch, limits) if launch else limits.registers

    def _warps(self, index: int, demand: float) -> int:
        configuration, launch, limits = self._launch(index)
        if launch is None:
            return LEAST_WARPS
        return resident_warps(launch, min(demand, register_limit(configuration, launch, limits)), limits)

    def _launch(self, index: int) -> tuple[Configuration, Launch | None, DeviceLimits]:
        """Return a row's configuration and launch; None where the template has none."""
        part, row = self._space.locate(index)
        configuration = part.configuration(row)
        try:
            return configuration, part.template.launch_of(configuration, self._space.problem), part.limits
        except Infeasible:
            return configuration, None, part.limits
