"""How a launch's grid follows the batch size: a rule found by asking the template for several batches, and checked."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import Infeasible
from tuner.layers import ConvLayer
from tuner.templates import MOST_BLOCKS, Configuration, KernelTemplate, Launch

_FAR = (1_000_003, 2_000_003)
_PROBES = (*range(1, 130), 255, 256, 257, 1000, 4095, 4097, 9_999, 10_000, 10_001, 65_535, 65_536, 100_003, *_FAR)
_MOST = 4096  # largest divisor looked for


@dataclass(frozen=True, slots=True)
class GridRule:
    """``min(times * ceil(scale * B / divisor), cap)``; without a scale, the constant ``times``."""

    times: int
    scale: int = 0
    divisor: int = 1
    cap: int | None = None

    def __call__(self, B: int) -> int:
        count = self.times * (-(-self.scale * B // self.divisor) if self.scale else 1)
        return count if self.cap is None else min(count, self.cap)

    def most_images(self, blocks: int) -> int:
        """Return the largest batch for which the rule stays within ``blocks``, and its text within an ``int``."""
        if not self.scale:
            return MOST_BLOCKS
        counted = (MOST_BLOCKS - self.divisor) // self.scale  # what the text computes on the way
        if self.cap is not None and self.cap <= blocks:
            return min(counted, MOST_BLOCKS // max(self.times, 1) * self.divisor // self.scale)
        return min(counted, blocks // self.times * self.divisor // self.scale)

    def text(self) -> str:
        """Return the rule as a C expression of the macro argument ``B``."""
        if not self.scale:
            return str(self.times)
        images = "(B)" if self.scale == 1 else f"(B) * {self.scale}"
        text = images if self.divisor == 1 else f"({images} + {self.divisor - 1}) / {self.divisor}"
        if self.times > 1:
            text = f"{self.times} * ({text})"
        if self.cap is not None:
            return f"(({text}) < {self.cap} ? ({text}) : {self.cap})"
        return text if text == "(B)" else f"({text})"

    def words(self) -> str:
        """Return the rule as a reader writes it: ``16 * ceil(B / 8)``; empty when the macro says it as well."""
        if self.divisor == 1 and self.cap is None:
            return ""
        images = "B" if self.scale == 1 else f"B * {self.scale}"
        text = f"ceil({images} / {self.divisor})" if self.divisor > 1 else images
        text = f"{self.times} * {text}" if self.times > 1 else text
        return text if self.cap is None else f"{text}, at most {self.cap}"


@dataclass(frozen=True, slots=True)
class Geometry:
    """A configuration's launch, and its grid for any batch where a rule was found.

    Attributes:
        rules: One per grid dimension; None when the grid follows the batch in a way no rule here describes.
    """

    launch: Launch
    rules: tuple[GridRule, GridRule, GridRule] | None

    def batches(self, layer: ConvLayer, wide: bool) -> tuple[int, int]:
        """Return the fewest and the most images of a launch: what an ``int`` counts and a CUDA grid holds.

        Args:
            wide: The kernel counts elements in 64 bits.
        """
        if self.rules is None:
            return layer.B, layer.B
        most = MOST_BLOCKS if wide else layer.most_images
        for rule, blocks in zip(self.rules, (MOST_BLOCKS, 65_535, 65_535), strict=True):
            most = min(most, rule.most_images(blocks))
        return 1, max(most, layer.B)


def find_geometry(template: KernelTemplate, configuration: Configuration, layer: ConvLayer) -> Geometry:
    """Find the rules, and check them at batches small and large and at the layer's own."""
    launch = template.launch_of(configuration, layer)
    probes = sorted({*_PROBES, layer.B, layer.B + 1})
    try:
        launches = {B: template.launch_of(configuration, layer.with_batch(B)) for B in probes}
    except Infeasible:  # of some batches there is no launch
        return Geometry(launch, None)
    if any((one.block, one.shared_bytes) != (launch.block, launch.shared_bytes) for one in launches.values()):
        return Geometry(launch, None)
    x, y, z = (_find_rule({B: one.grid[axis] for B, one in launches.items()}) for axis in range(3))
    return Geometry(launch, (x, y, z) if x and y and z else None)


def _find_rule(grid: dict[int, int]) -> GridRule | None:
    if len(set(grid.values())) == 1:
        return GridRule(grid[1])
    cap = grid[_FAR[0]] if grid[_FAR[0]] == grid[_FAR[1]] else None
    grown = [B for B in sorted(grid) if grid[B] > grid[1]]
    if not grown:
        return None
    whole = GridRule(grid[1], 1, grown[0] - 1, cap)  # a block takes one or several images of a channel or tile
    return whole if _fits(whole, grid) else _find_fraction(grid, cap)


def _find_fraction(grid: dict[int, int], cap: int | None) -> GridRule | None:
    """Look for ``ceil(scale * B / divisor)``: tiles laid over the rows of all images."""
    last = max(B for B in grid if cap is None or grid[B] < cap)
    for divisor in range(1, _MOST):
        scale = -(-grid[last] * divisor // last)
        for nearby in (scale, scale - 1):
            rule = GridRule(1, nearby, divisor, cap)
            if nearby > 0 and _fits(rule, grid):
                return rule
    return None


def _fits(rule: GridRule, grid: dict[int, int]) -> bool:
    return all(rule(B) == blocks for B, blocks in grid.items())
