"""Points of a space: a choice for each of a template's parameters, and named ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tuner.kernels.parameters import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One point: a template's name and a value for each of its parameters, in the template's order."""

    template: str
    values: tuple[tuple[str, Choice], ...]

    @property
    def key(self) -> str:
        """Canonical text: equal for equal configurations, across runs and versions."""
        return _key(self.template, self.values)

    def as_dict(self) -> dict[str, Choice]:
        return dict(self.values)

    def __str__(self) -> str:
        return f"{self.template} " + " ".join(f"{name}={value}" for name, value in self.values)


@lru_cache(maxsize=1 << 16)
def _key(template: str, values: tuple[tuple[str, Choice], ...]) -> str:
    return json.dumps([template, sorted(values)], separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Baseline:
    """A named configuration that every study measures first. Parameters left out take their first choice.

    Attributes:
        start: Measured first because it is close to the best: slower ones then need fewer launches.
    """

    name: str
    values: Mapping[str, Choice]
    start: bool = False
