"""Buffers between guard zones, and what is drawn so that nothing on the device can foresee it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.devices import Device
from tuner.problems.problem import Tensor

PAGE_BYTES = 4096
GUARD_BYTES = 2 << 20
INPUT_GUARD_BYTES = 64 << 10
ANY_KIND, NANS, HUGE_NUMBERS, NUMBERS = range(4)  # of words in a guard zone; as in bench.cu
MIXED, LIKELY, ALIKE = range(3)  # of what y holds before a launch; as in bench.cu
CLEARED, ONES, PLAIN = 0, 0xFFFFFFFF, 0x3F400000  # of what memory may be full of: zeros, NaN, 0.75


class Deck:
    """Numbers in random order, each of them once before any comes again."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self._left: list[int] = []

    def draw(self) -> int:
        self._left = self._left or secrets.SystemRandom().sample(self._numbers, len(self._numbers))
        return self._left.pop()


@dataclass(frozen=True, slots=True)
class Fill:
    """What the output holds before a launch: by ``kind`` poison, or in each place ``word``; and its zones' kind."""

    kind: int
    word: int
    around: int

    @property
    def arguments(self) -> tuple[np.generic, ...]:
        return np.uint32(self.kind), np.uint32(self.word)


class Fills:
    """Fills in random order, among them what kernels find elsewhere: results of before, cleared memory."""

    def __init__(self) -> None:
        self._kinds, self._around = Deck(MIXED, MIXED, LIKELY, ALIKE), Deck(ANY_KIND, ANY_KIND, NUMBERS)
        self._words = Deck(CLEARED, CLEARED, ONES, PLAIN)

    def draw(self) -> Fill:
        kind = self._kinds.draw()
        return Fill(kind, self._words.draw() if kind == ALIKE else 0, self._around.draw())


class Guarded:
    """A buffer between two guard zones, whole pages together. Beyond them, where a device can tell, there is no memory.

    Args:
        nbytes: Of the buffer itself.
        guard: Bytes of each zone at least, a multiple of a page.

    Attributes:
        begin, words: Of the buffer, where it begins in the whole; of the whole.
        kind: Of the words in its zones.
    """

    def __init__(self, device: Device, nbytes: int, guard: int) -> None:
        offset = guard + device.alignment * (1 + secrets.randbelow(PAGE_BYTES // device.alignment - 1))
        self.kind = ANY_KIND
        self.begin, self.words = offset // 4, (offset + nbytes + guard + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES // 4
        self.whole = device.allocate_apart(4 * self.words)
        self.inner = device.view(self.whole, offset, nbytes)


def poison_arguments(guarded: Guarded, begin: int, end: int, key: int) -> tuple[np.generic, ...]:
    return np.uint64(begin), np.uint64(end), np.uint32(key), np.uint32(guarded.kind)


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
