"""Buffers between guard zones, and what is drawn so that nothing on the device can foresee it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from tuner.devices import Device
from tuner.problems.problem import Tensor

GUARD_BYTES = 2 << 20
INPUT_GUARD_BYTES = 64 << 10


class Deck:
    """Numbers in random order, each of them once before any comes again."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self._left: list[int] = []

    def draw(self) -> int:
        self._left = self._left or secrets.SystemRandom().sample(self._numbers, len(self._numbers))
        return self._left.pop()


class Guarded:
    """A buffer between two guard zones.

    Args:
        nbytes: Of the buffer itself.
        guard: Bytes of each zone, a multiple of a page.

    Attributes:
        forced: Of the poison behind the buffer: 0 for all its kinds (NaN alone where ``spared``), 1 for huge numbers.
    """

    def __init__(self, device: Device, nbytes: int, guard: int) -> None:
        self.spared = 1 if guard == INPUT_GUARD_BYTES else 0  # what is read before an input is NaN
        self.forced = 0
        self.begin, self.words = guard // 4, (2 * guard + nbytes) // 4
        self.whole = device.allocate(4 * self.words)
        self.inner = device.view(self.whole, guard, nbytes)


def poison_arguments(guarded: Guarded, begin: int, end: int, key: int) -> tuple[np.generic, ...]:
    forced = guarded.forced if begin >= guarded.begin else 0
    return np.uint64(begin), np.uint64(end), np.uint32(key), np.uint32(guarded.spared), np.uint32(forced)


def drawn_key() -> int:
    """Return a key that nothing on the device can foresee."""
    return secrets.randbits(32)


def shuffled(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return them in random order."""
    return secrets.SystemRandom().sample(tensors, len(tensors))


def hashed(index: int, key: int) -> int:
    """Return HASH(index, key) of bench.cu."""
    h = (index * 0x9E3779B1 ^ key) & 0xFFFFFFFF
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16
