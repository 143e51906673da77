"""Launch geometry: whole numbers, or expressions if the batch is symbolic."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any

from tuner.errors import UsageError
from tuner.kernels.calling import shortened
from tuner.kernels.expressions import MOST, Expression

MOST_BLOCKS = MOST  # most blocks along one dimension, on any device


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Launch geometry of one configuration: blocks, threads and dynamic shared memory in bytes.

    If the problem's batch is symbolic, the grid consists of expressions of it.

    Raises:
        UsageError: Not three whole numbers each; the message says what was given.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0

    def __post_init__(self) -> None:
        for name in ("grid", "block"):
            given = getattr(self, name)
            sizes = tuple(_size(each) for each in given) if isinstance(given, tuple | list) else ()
            if len(sizes) != 3 or any(each is None for each in sizes):
                raise UsageError(
                    f"{name}={shortened(given)} is not three whole numbers below 2^31; write {name}=(a // b, 1, 1)"
                )
            object.__setattr__(self, name, sizes)
        if (shared := _size(self.shared_bytes)) is None or shared < 0:
            raise UsageError(
                f"shared_bytes={shortened(self.shared_bytes)} is not a number of bytes; give a whole number"
            )
        object.__setattr__(self, "shared_bytes", shared)


def _size(value: object) -> Any:
    return value if isinstance(value, Expression) else _whole(value)


def _whole(value: object) -> int | None:
    """Return a Python or NumPy integer as an int, None for anything else or too large for a device."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        number = index(value)
    except TypeError:  # an array
        return None
    return number if abs(number) <= MOST_BLOCKS else None
