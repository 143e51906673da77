"""Logarithms of seconds as the models see them: standardised, what is slow drawn together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tuner.search.candidates import Floats

FARTHEST = 20.0  # reaches above the middle, on the compressed scale, that are told apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Draws what is slower than ``middle`` together, on a logarithmic scale of ``reach``; then standardises."""

    middle: float
    reach: float
    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, raw: Floats, compress: float) -> Scale:
        """Return the scale on which some values have mean 0 and deviation 1."""
        middle = float(np.median(raw))
        plain = cls(middle=middle, reach=max(middle - float(raw.min()), 1e-9) * compress)
        values = plain.apply(raw)
        return replace(plain, mean=float(values.mean()), spread=float(values.std()) or 1.0)

    def apply(self, raw: Floats) -> Floats:
        drawn = self.middle + self.reach * np.log1p(np.maximum(raw - self.middle, 0) / self.reach)
        return np.asarray((np.where(raw > self.middle, drawn, raw) - self.mean) / self.spread)

    def undo(self, standard: Floats) -> Floats:
        """Return the values that standardised, compressed ones stand for."""
        drawn = standard * self.spread + self.mean
        above = np.minimum(np.maximum(drawn - self.middle, 0) / self.reach, FARTHEST)
        return np.where(drawn > self.middle, self.middle + self.reach * np.expm1(above), drawn)
