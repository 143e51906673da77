"""tiled: a block's tile of c in registers, its parts of a and b through shared memory."""

from __future__ import annotations

from typing import Any

from tuner.kernels.arithmetic import pick, up
from tuner.kernels.sizes import Sizes, size
from tuner.kernels.template import (
    Baseline,
    Constraint,
    DeviceLimits,
    Heuristic,
    KernelTemplate,
    Launch,
    Parameter,
    read_source,
)
from tuner.problems.gemm import Gemm

MAX_GRID = 65_535
MAX_SUMS = 64
FLOAT_BYTES = 4


class Tile(Sizes):
    """The sizes that follow from one configuration (or columns of them)."""

    @size
    def threads(self) -> Any:
        """of a block"""
        return self.p.BLOCK_X * self.p.BLOCK_Y

    @size
    def thread_m(self) -> Any:
        """rows of a thread's sums"""
        return self.p.TILE_M // self.p.BLOCK_Y

    @size
    def thread_n(self) -> Any:
        """columns of a thread's sums"""
        return self.p.TILE_N // self.p.BLOCK_X

    @property
    def shared_bytes(self) -> Any:
        words = self.p.TILE_M * (self.p.TILE_K + 1) + self.p.TILE_K * self.p.TILE_N
        return pick(self.p.STAGING == "shared", FLOAT_BYTES * words, 0)


def launch(p: Any, problem: Gemm) -> Launch:
    return Launch(
        grid=(up(problem.N, p.TILE_N), up(problem.M, p.TILE_M), 1),
        block=(p.BLOCK_X, p.BLOCK_Y, 1),
        shared_bytes=Tile(p, problem).shared_bytes,
    )


def figures(p: Any, problem: Gemm) -> dict[str, Any]:
    tile = Tile(p, problem)
    return {
        "sums": tile.thread_m * tile.thread_n,
        "waste": up(problem.N, p.TILE_N) * p.TILE_N * up(problem.M, p.TILE_M) * p.TILE_M / (problem.M * problem.N),
        "read per sum": (tile.thread_m + tile.thread_n) / (tile.thread_m * tile.thread_n),
    }


def whole_threads(p: Any, problem: Gemm, limits: DeviceLimits) -> Any:
    return (p.TILE_M % p.BLOCK_Y == 0) & (p.TILE_N % p.BLOCK_X == 0) & (p.TILE_M >= p.BLOCK_Y) & (p.TILE_N >= p.BLOCK_X)


TEMPLATE = KernelTemplate(
    name="tiled",
    problem="gemm",
    idea="a block's tile of c in registers, its parts of a and b through shared memory",
    source=read_source(__file__),
    parameters=(
        Parameter(name="STAGING", choices=("none", "shared"), doc="where threads read a and b from"),
        Parameter(
            name="BLOCK_SHAPE",
            choices=("16x16", "32x8", "32x32", "8x8", "16x8", "32x4", "64x4", "64x1", "16x1", "8x1", "4x1", "1x1"),
            doc="threads of a block along columns and rows of c",
        ),
        Parameter(name="TILE_M", choices=(16, 1, 2, 4, 8, 32, 64, 128), doc="rows of c that a block computes"),
        Parameter(name="TILE_N", choices=(16, 32, 64, 128, 256), doc="columns of c that a block computes"),
        Parameter(name="TILE_K", choices=(8, 4, 16, 32, 64), doc="terms staged at once"),
        Parameter(name="UNROLL", choices=(1, 2, 4, 8), doc="terms unrolled"),
    ),
    constraints=(
        Constraint("whole threads", whole_threads, "a tile's rows and columns do not share out evenly to the threads"),
        Constraint(
            "threads",
            lambda p, problem, limits: limits.max_threads >= p.BLOCK_X * p.BLOCK_Y,
            "a block has more threads than the device allows",
        ),
        Constraint(
            "shared memory",
            lambda p, problem, limits: Tile(p, problem).shared_bytes <= limits.shared_bytes,
            "the staged parts do not fit the shared memory",
        ),
        Constraint(
            "grid",
            lambda p, problem, limits: (up(problem.M, p.TILE_M) <= MAX_GRID) & (up(problem.N, p.TILE_N) < 2**31),
            "more blocks along the rows than a grid has",
        ),
    ),
    heuristics=(
        Heuristic(
            "sums of a thread",
            lambda p, problem, limits: Tile(p, problem).thread_m * Tile(p, problem).thread_n <= MAX_SUMS,
            "so many sums do not fit a thread's registers",
        ),
        Heuristic(
            "use of staged terms",
            lambda p, problem, limits: (p.STAGING == "shared") | (p.TILE_K == 8),
            "terms are staged in shared memory alone",
        ),
    ),
    launch=launch,
    figures=figures,
    sizes=Tile,
    baselines=(
        Baseline("naive", {}),
        Baseline("tiled", {"STAGING": "shared", "TILE_K": 16}),
        Baseline("4 x 4 sums a thread", {"STAGING": "shared", "TILE_M": 64, "TILE_N": 64, "TILE_K": 16}, start=True),
        Baseline("8 x 8 sums a thread", {"STAGING": "shared", "TILE_M": 128, "TILE_N": 128, "TILE_K": 16}, start=True),
        Baseline(
            "one thread a strip",
            {"STAGING": "none", "BLOCK_SHAPE": "1x1", "TILE_M": 4, "TILE_N": 16, "UNROLL": 1},
            start=True,
        ),
    ),
)
