"""shared_tile: direct, with the block's part of x, of w, or of both staged in shared memory first."""

from __future__ import annotations

from typing import Any

from tuner.kernels.arithmetic import pick, up
from tuner.kernels.sizes import ConvSizes, size
from tuner.kernels.template import (
    Baseline,
    Choice,
    Constraint,
    DeviceLimits,
    Heuristic,
    KernelTemplate,
    Launch,
    Parameter,
    read_source,
)
from tuner.problems.conv.layers import FLOAT_BYTES, ConvLayer

MAX_GRID = 65_535
MAX_SUMS = 16


class Tile(ConvSizes):
    """The sizes that follow from one configuration (or columns of them)."""

    @property
    def tile_rows(self) -> Any:
        """output rows of a block"""
        return pick(self.p.TILE_WIDTH == 0, self.layer.H_out, self.p.TILE_WIDTH)

    @property
    def tile_columns(self) -> Any:
        """output columns of a block"""
        return pick(self.p.TILE_WIDTH == 0, self.layer.W_out, self.p.TILE_WIDTH)

    @property
    def tiles(self) -> Any:
        return up(self.layer.H_out, self.tile_rows) * up(self.layer.W_out, self.tile_columns)

    @size
    def threads(self) -> Any:
        """of a block"""
        return self.p.BLOCK_X * self.p.BLOCK_Y

    @size
    def flat(self) -> Any:
        """threads walk along pixels, else along columns and rows"""
        return self.p.BLOCK_Y == 1

    @size
    def rounds_x(self) -> Any:
        """turns of the threads along a row of the tile, or along all of it"""
        return pick(
            self.flat, up(self.tile_rows * self.tile_columns, self.p.BLOCK_X), up(self.tile_columns, self.p.BLOCK_X)
        )

    @size
    def rounds(self) -> Any:
        """turns of the threads in all"""
        return pick(self.flat, self.rounds_x, self.rounds_x * up(self.tile_rows, self.p.BLOCK_Y))

    @size
    def loop_m(self) -> Any:
        """a thread computes all output channels"""
        return self.p.GRID_LAYOUT == "B,1,1"

    @size
    def staged_c(self) -> Any:
        """input channels staged at once"""
        return pick(self.p.CHANNELS == "all", self.layer.C, 1)

    @property
    def staged_m(self) -> Any:
        return pick((self.p.CHANNELS == "all") & self.loop_m, self.layer.M, 1)

    @size
    def x_words(self) -> Any:
        """of x, staged"""
        rows, columns = self.tile_rows + self.layer.K - 1, self.tile_columns + self.layer.K - 1
        return self.p.STAGE_X * self.staged_c * rows * columns

    @property
    def w_words(self) -> Any:
        return self.p.STAGE_W * self.staged_m * self.staged_c * self.layer.K**2

    @size
    def shared_words(self) -> Any:
        """of x and w, staged"""
        return self.x_words + self.w_words

    @property
    def shared_bytes(self) -> Any:
        return FLOAT_BYTES * self.shared_words

    @size
    def terms_unrolled(self) -> Any:
        """of a filter row"""
        unroll = self.p.UNROLL
        return pick(unroll == "1", 1, pick(unroll == "2", 2, self.layer.K))

    @size
    def rows_unrolled(self) -> Any:
        """of a filter"""
        return pick(self.p.UNROLL == "filter", self.layer.K, 1)

    @size
    def weight_words(self) -> Any:
        """all of w"""
        return self.layer.M * self.layer.reduction


def launch(p: Any, layer: ConvLayer) -> Launch:
    tile = Tile(p, layer)
    return Launch(
        grid=(layer.B, layer.M if p.GRID_LAYOUT == "B,M,1" else 1, tile.tiles),
        block=(p.BLOCK_X, p.BLOCK_Y, 1),
        shared_bytes=tile.shared_bytes,
    )


def figures(p: Any, layer: ConvLayer) -> dict[str, Any]:
    tile = Tile(p, layer)
    turns = tile.tiles * tile.rounds
    return {
        "shared bytes": tile.shared_bytes,
        "rounds": tile.rounds,
        "waste": turns * p.BLOCK_X * p.BLOCK_Y / (layer.H_out * layer.W_out),
    }


def fits_grid(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    return (Tile(p, layer).tiles <= MAX_GRID) & ((p.GRID_LAYOUT != "B,M,1") | (layer.M <= MAX_GRID))


def has_pixels(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (tile.threads <= 64) | (tile.threads < 4 * tile.tile_rows * tile.tile_columns)


STEP_2: dict[str, Choice] = {"BLOCK_SHAPE": "32x32", "GRID_LAYOUT": "B,M,1", "STAGE_X": 1, "STAGE_W": 1}
STEP_3: dict[str, Choice] = {**STEP_2, "BLOCK_SHAPE": "1024x1"}
STEP_4: dict[str, Choice] = {**STEP_3, "GRID_LAYOUT": "B,1,1"}
STEP_6: dict[str, Choice] = {**STEP_4, "CONST_K": 1, "UNROLL": "filter"}
STEP_7: dict[str, Choice] = {**STEP_6, "CONST_M": 1, "CONST_SIZES": 1}

TEMPLATE = KernelTemplate(
    name="shared_tile",
    idea="direct, with the block's part of x, of w, or of both staged in shared memory first",
    source=read_source(__file__),
    parameters=(
        Parameter(
            name="BLOCK_SHAPE",
            choices=("32x32", "16x16", "8x8", "32x8", "1024x1", "512x1", "256x1", "128x1", "64x1"),
            doc="threads of a block: along columns and rows of the tile, or flat along its pixels",
        ),
        Parameter(
            name="TILE_WIDTH", choices=(0, 8, 16, 24, 32), doc="output pixels along a tile's sides; 0: the image"
        ),
        Parameter(
            name="GRID_LAYOUT",
            choices=("B,M,1", "B,1,1"),
            doc="a block per image and channel, or per image with the M loop in the thread; tiles along z",
        ),
        Parameter(name="STAGE_X", choices=(1, 0), doc="x goes through shared memory"),
        Parameter(name="STAGE_W", choices=(1, 0), doc="w goes through shared memory"),
        Parameter(name="WEIGHTS", choices=("global", "constant"), doc="memory that an unstaged w is read from"),
        Parameter(name="CHANNELS", choices=("all", "one"), doc="input channels staged at once"),
        Parameter(name="CONST_K", choices=(0, 1), doc="K is a compile-time constant"),
        Parameter(name="CONST_M", choices=(0, 1), doc="M is a compile-time constant"),
        Parameter(name="CONST_SIZES", choices=(0, 1), doc="C, H and W are compile-time constants"),
        Parameter(name="UNROLL", choices=("1", "2", "row", "filter"), doc="filter terms unrolled"),
    ),
    constraints=(
        Constraint(
            "threads",
            lambda p, layer, limits: limits.max_threads >= p.BLOCK_X * p.BLOCK_Y,
            "a block has more threads than the device allows",
        ),
        Constraint("grid", fits_grid, "a grid has at most 65,535 blocks along y and z"),
        Constraint(
            "staging",
            lambda p, layer, limits: (p.STAGE_X == 1) | (p.STAGE_W == 1),
            "without x or w in shared memory this is the direct template",
        ),
        Constraint(
            "staged weights",
            lambda p, layer, limits: (p.STAGE_W == 0) | (p.WEIGHTS == "global"),
            "weights are staged from global memory",
        ),
        Constraint(
            "constant memory",
            lambda p, layer, limits: (
                (p.WEIGHTS == "global") | (FLOAT_BYTES * Tile(p, layer).weight_words <= limits.constant_bytes)
            ),
            "the weights do not fit constant memory",
        ),
        Constraint(
            "shared memory",
            lambda p, layer, limits: Tile(p, layer).shared_bytes <= limits.shared_bytes,
            "the staged x and w do not fit shared memory",
        ),
    ),
    heuristics=(
        Heuristic("pixels", has_pixels, "most threads of the block would have no pixel"),
        Heuristic(
            "tile",
            lambda p, layer, limits: max(layer.H_out, layer.W_out) > p.TILE_WIDTH,
            "a tile of this width is the whole image",
        ),
        Heuristic(
            "one channel",
            lambda p, layer, limits: (p.CHANNELS == "all") | (layer.C > 1),
            "a single channel is all of them",
        ),
        Heuristic(
            "kept sums",
            lambda p, layer, limits: (p.CHANNELS == "all") | (Tile(p, layer).rounds <= MAX_SUMS),
            "the sums kept from channel to channel do not fit a thread's registers",
        ),
        Heuristic(
            "unroll by K",
            lambda p, layer, limits: (p.CONST_K == 1) | (p.UNROLL == "1") | (p.UNROLL == "2"),
            "unrolling a filter row needs K at compile time",
        ),
        Heuristic(
            "unroll a 1x1 filter",
            lambda p, layer, limits: (p.UNROLL == "1") | (layer.K > 1),
            "a 1x1 filter has nothing to unroll",
        ),
        Heuristic(
            "unroll by 2",
            lambda p, layer, limits: (p.UNROLL != "2") | (layer.K > 2),
            "unrolling by 2 needs a filter row longer than 2",
        ),
        Heuristic(
            "unrolled filter",
            lambda p, layer, limits: (p.UNROLL != "filter") | (layer.K**2 <= 256),
            "the unrolled filter is longer than 256 terms",
        ),
    ),
    launch=launch,
    sizes=Tile,
    figures=figures,
    baselines=(
        Baseline("2017 step 2: x and w in shared memory", STEP_2),
        Baseline("2017 step 3: block 1024x1", STEP_3),
        Baseline("2017 step 4: grid (B,1,1)", STEP_4),
        Baseline("2017 step 6: filter unrolled", STEP_6),
        Baseline("2017 final kernel", STEP_7),
    ),
)
