"""Logarithms of seconds as the models see them: standardised, with slow values compressed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tuner.search.arrays import Floats

MAX_REACHES = 20.0  # largest compressed distance above the middle, in reaches, that is undone exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputWarp:
    """Compresses values above ``middle`` on a logarithmic scale of ``reach``; then standardises all."""

    middle: float
    reach: float
    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def fit(cls, raw: Floats, compress: float) -> OutputWarp:
        """Return the warp after which some values have mean 0 and deviation 1.

        Args:
            compress: The reach, relative to how far the fastest value is below the median.
        """
        middle = float(np.median(raw))
        plain = cls(middle=middle, reach=max(middle - float(raw.min()), 1e-9) * compress)
        values = plain.apply(raw)
        return replace(plain, mean=float(values.mean()), spread=float(values.std()) or 1.0)

    def apply(self, raw: Floats) -> Floats:
        compressed = self.middle + self.reach * np.log1p(np.maximum(raw - self.middle, 0) / self.reach)
        return np.asarray((np.where(raw > self.middle, compressed, raw) - self.mean) / self.spread)

    def undo(self, standard: Floats) -> Floats:
        """Return the values that warped ones stand for."""
        compressed = standard * self.spread + self.mean
        above = np.minimum(np.maximum(compressed - self.middle, 0) / self.reach, MAX_REACHES)
        return np.where(compressed > self.middle, self.middle + self.reach * np.expm1(above), compressed)
