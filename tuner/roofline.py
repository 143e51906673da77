"""The roofline: the least time a layer can take on a device, and which of the device's ceilings sets it."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.layers import ConvLayer
from tuner.results import Environment

MEMORY, FMA = "memory", "FMA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A layer's bound on a device.

    Attributes:
        seconds: No kernel is faster.
        wall: The ceiling that sets it.
    """

    seconds: float
    wall: str

    def share(self, seconds: float) -> float:
        """Return roof / seconds: 1.0 is as fast as the device allows."""
        return self.seconds / seconds


def roof(layer: ConvLayer, environment: Environment) -> Roof | None:
    """Return the bound: the larger of fewest bytes at the memory's rate and FLOP at the arithmetic peak.

    None while the device's ceilings are not known.
    """
    flops, rate = environment.peak_flops, environment.peak_bytes
    if not flops or not rate:
        return None
    seconds = layer.floor_seconds(rate, flops)
    return Roof(seconds=seconds, wall=MEMORY if layer.least_bytes / rate >= layer.flop / flops else FMA)
