"""What is checked of a configuration besides its output, and which of its launches are."""

from __future__ import annotations

import secrets

from tuner.bench.protocol import Task
from tuner.devices.static_memory import allocates, static_bytes
from tuner.errors import Infeasible
from tuner.kernels.launch import Launch

SHARE, CERTAIN = 0.25, 3  # of timed samples that are checked; of the fewest, at least


class Checks:
    """Which timed launches are looked at: each with the same chance, at least three of the fewest, one of the last two.

    Args:
        fewest: Launches that there will be at least, if the configuration is not clearly slower.
    """

    def __init__(self, fewest: int) -> None:
        self._random = secrets.SystemRandom()
        self._certain = set(self._random.sample(range(fewest), min(CERTAIN, fewest)))
        self._taken: list[bool] = []

    def next(self) -> bool:
        """Return whether the launch just made is looked at."""
        self._taken.append(len(self._taken) in self._certain or self._random.random() < SHARE)
        return self._taken[-1]

    @property
    def owed(self) -> bool:
        """Whether the last launch must be looked at now: neither it nor the one before it was."""
        return not any(self._taken[-2:])


def check_geometry(launch: Launch) -> None:
    """Refuse a launch without blocks or threads: some drivers take it for done.

    Raises:
        Infeasible: Names the launch.
    """
    if min(*launch.grid, *launch.block) < 1:
        raise Infeasible(f"the launch is empty: grid {launch.grid}, block {launch.block}; each needs at least 1")


def check_static_memory(task: Task) -> None:
    """Refuse a kernel that may count its launches or keep its results, unless its template says that it has memory.

    Raises:
        Infeasible: Says how much it has.
    """
    if task.rendered.static_memory:
        return
    if allocates(task.binary):
        raise Infeasible(
            "the kernel calls malloc, whose memory still holds what an earlier launch left there; use registers or "
            "shared memory, or declare static_memory=True in the template"
        )
    if kept := static_bytes(task.binary):
        raise Infeasible(
            f"the kernel keeps {kept:,} bytes of its own from launch to launch, on which its results may depend; use "
            "registers, shared memory or constants, or declare static_memory=True in the template"
        )
