"""The queue of proposals: the named baselines, then the sampler's; each is claimed before use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tuner.kernels.configuration import Configuration
from tuner.kernels.space import Space
from tuner.problems.problem import is_naive
from tuner.results import Result
from tuner.search.samplers.base import Sampler
from tuner.storage import COMPILE, StudyHandle
from tuner.tuning.resource_filter import ResourceFilter

ROUNDS = 4  # requests for proposals that are not hopeless, before any are accepted
Named = tuple[Configuration, str]


def baselines(space: Space) -> list[Named]:
    """Return the named configurations that are valid here, each once, in the templates' order."""
    found: dict[str, Named] = {}
    for part in space.parts:
        for baseline in part.template.baselines:
            configuration = part.template.configuration(baseline.values)
            if part.find(configuration) is not None:
                found.setdefault(configuration.key, (configuration, baseline.name))
    return list(found.values())


def in_turn(space: Space) -> list[Named]:
    """Return the baselines in the order to measure them: the naive one, the good starting points, the others."""
    starts = {each.name for part in space.parts for each in part.template.baselines if each.start}
    return sorted(baselines(space), key=lambda each: (not is_naive(each[1]), each[1] not in starts))


def measured(space: Space, results: Iterable[Result]) -> tuple[Result, ...]:
    """Return the results of named baselines, in the templates' order."""
    place = {configuration.key: place for place, (configuration, _) in enumerate(baselines(space))}
    named = (result for result in results if result.baseline)
    return tuple(sorted(named, key=lambda result: place.get(result.configuration.key, len(place))))


class ProposalQueue:
    """Hands out valid configurations that nobody has measured or claimed.

    Args:
        sampler: Makes the proposals; those that ``resource_filter`` finds hopeless are deferred.
        known: Results that the study has already; the sampler and the filter learn from them.
    """

    def __init__(
        self,
        space: Space,
        sampler: Sampler,
        resource_filter: ResourceFilter,
        handle: StudyHandle,
        known: Iterable[Result],
    ) -> None:
        self._space, self._sampler, self._resource_filter, self._handle = space, sampler, resource_filter, handle
        seen = set()
        for result in known:
            seen.add(result.configuration.key)
            self.learn(result)
        self._named = deque(named for named in in_turn(space) if named[0].key not in seen)
        self.exhausted = False

    def has_some(self, hurry: bool = False) -> bool:
        """Whether :meth:`take` would answer at once; with ``hurry``, compilers are waiting for it."""
        return bool(self._named) or self._sampler.has_some(hurry)

    def take(self, count: int) -> list[Named]:
        """Claim and return up to ``count`` configurations with their baseline names; none when nothing is left.

        Fewer if that avoids waiting for the sampler.
        """
        taken: list[Named] = []
        while len(taken) < count and not self.exhausted and (not taken or self.has_some()):
            wanted = self._wanted(count - len(taken))
            granted = {each.key for each in self._handle.claim([each for each, _ in wanted], stage=COMPILE)}
            for named in wanted:
                if named[0].key in granted:
                    taken.append(named)
                else:
                    self._skip(named[0])
        return taken

    def _wanted(self, count: int) -> list[Named]:
        named = [self._named.popleft() for _ in range(min(count, len(self._named)))]
        for configuration, _ in named:
            self._skip(configuration)
        proposed = self._promising(count - len(named)) if len(named) < count else []
        self.exhausted = not named and not proposed
        return named + [(self._space[index], "") for index in proposed]

    def _promising(self, count: int) -> list[int]:
        kept: list[int] = []
        for _ in range(ROUNDS):
            proposed = self._sampler.propose(count - len(kept))
            good = self._resource_filter.keep(proposed)
            for index in set(proposed) - set(good):
                self._sampler.skip(index)
            kept += good
            if len(kept) == count or not proposed or (kept and not self._sampler.has_some()):
                return kept or self._resource_filter.put_off(count)
        return kept + self._sampler.propose(count - len(kept))

    def _skip(self, configuration: Configuration) -> None:
        index = self._space.find(configuration)
        if index is not None:
            self._sampler.skip(index)

    def learn(self, result: Result) -> None:
        """Tell the sampler the outcome of a configuration."""
        index = self._space.find(result.configuration)
        if index is None:
            return
        self._resource_filter.learn(index, result)
        measured = result.measurement
        if not result.ok or measured is None:
            self._sampler.observe(index, None)
            return
        self._sampler.observe(index, measured.median, noise=measured.spread / 1.96, pruned=measured.pruned)
