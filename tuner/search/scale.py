"""Logarithms of seconds as the surrogate sees them: standardised, what is slow drawn together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tuner.search.candidates import Floats


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
