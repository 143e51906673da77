"""How many blocks of a kernel fit on a multiprocessor at once, and the share of its warps that they use.

Source: NVIDIA's occupancy calculator, ``cuda_occupancy.h``; a test compares the two wherever the toolkit is installed.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
REGISTER_UNIT = 256  # granularity of a warp's registers
PARTITIONS = 4  # partitions of a multiprocessor, each with its share of registers and warps
RESERVED_BYTES = 1024  # shared memory that the driver reserves in each block


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiprocessor:
    """The resources of one multiprocessor.

    Attributes:
        shared_bytes: Shared memory for all its blocks, including ``reserved_bytes`` of each.
        shared_unit: Granularity of a block's shared memory in bytes.
    """

    threads: int
    blocks: int
    registers: int
    block_registers: int
    shared_bytes: int
    reserved_bytes: int = RESERVED_BYTES
    shared_unit: int = 128


def resident_blocks(has: Multiprocessor, threads: int, registers: int, shared_bytes: int) -> int:
    """Return how many blocks fit on a multiprocessor at once; 0 if not even one does."""
    warps = _up(threads, WARP)
    limits = [has.blocks, has.threads // WARP // warps, _by_registers(has, warps, registers)]
    if shared_bytes + has.reserved_bytes:
        limits.append(has.shared_bytes // _rounded(shared_bytes + has.reserved_bytes, has.shared_unit))
    return min(limits)


def occupancy(has: Multiprocessor, threads: int, registers: int, shared_bytes: int) -> float:
    """Return the share of a multiprocessor's warp slots that are in use when it is full."""
    blocks = resident_blocks(has, threads, registers, shared_bytes)
    return blocks * _up(threads, WARP) / (has.threads // WARP)


def _by_registers(has: Multiprocessor, warps: int, registers: int) -> int:
    a_warp = _rounded(registers * WARP, REGISTER_UNIT)
    if a_warp == 0:
        return has.blocks
    if a_warp * _rounded(warps, PARTITIONS) > has.block_registers:
        return 0
    return has.registers // PARTITIONS // a_warp * PARTITIONS // warps


def _up(count: int, part: int) -> int:
    return -(-count // part)


def _rounded(count: int, unit: int) -> int:
    return _up(count, unit) * unit
