"""Heuristics that several templates share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuner.kernels.limits import CUDA, DeviceLimits
from tuner.kernels.rules import Heuristic
from tuner.problems.problem import Problem

Registers = Callable[[Any, Any], Any]  # registers that a thread may need, by parameters and problem


def block_registers(each: Registers) -> Heuristic:
    """Return: ``MIN_BLOCKS`` blocks of ``BLOCK_X`` threads are resident at once."""

    def fits(p: Any, problem: Problem, limits: DeviceLimits) -> Any:
        return (each(p, problem) * p.BLOCK_X * p.MIN_BLOCKS <= limits.registers) | (limits.dialect != CUDA)

    return Heuristic("block registers", fits, "this many blocks do not fit the registers at once")


def register_limit(each: Registers, tile: str) -> Heuristic:
    """Return: asking for ``MIN_BLOCKS`` blocks limits the registers of the threads, or nearly so.

    Args:
        tile: What the threads keep in registers, for the reason: ``the warp's tile is``.
    """

    def binds(p: Any, problem: Problem, limits: DeviceLimits) -> Any:
        return (p.MIN_BLOCKS == 1) | (5 * each(p, problem) * p.BLOCK_X * p.MIN_BLOCKS > 2 * limits.registers)

    return Heuristic("register limit", binds, f"{tile} too small for a limit of registers to matter")
