"""How many blocks of a kernel fit a multiprocessor at once, and the share of its warps they are.

Source: NVIDIA's occupancy calculator, ``cuda_occupancy.h``; a test compares the two wherever the toolkit is installed.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
REGISTER_UNIT = 256  # registers are given to a warp in units of this many
PARTITIONS = 4  # of a multiprocessor, each with its share of the registers and the warps
RESERVED_BYTES = 1024  # shared memory that the driver takes of each block


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiprocessor:
    """What one multiprocessor has.

    Attributes:
        shared_bytes: Of all its blocks, ``reserved_bytes`` of each included.
        shared_unit: Shared memory is given to a block in units of this many bytes.
    """

    threads: int
    blocks: int
    registers: int
    block_registers: int
    shared_bytes: int
    reserved_bytes: int = RESERVED_BYTES
    shared_unit: int = 128


def resident_blocks(has: Multiprocessor, threads: int, registers: int, shared_bytes: int) -> int:
    """Return the blocks that are on a multiprocessor at once; 0 where not even one fits."""
    warps = _up(threads, WARP)
    limits = [has.blocks, has.threads // WARP // warps, _by_registers(has, warps, registers)]
    if shared_bytes + has.reserved_bytes:
        limits.append(has.shared_bytes // _rounded(shared_bytes + has.reserved_bytes, has.shared_unit))
    return min(limits)


def occupancy(has: Multiprocessor, threads: int, registers: int, shared_bytes: int) -> float:
    """Return the share of a multiprocessor's warps that a full one has."""
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
