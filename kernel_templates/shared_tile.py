"""shared_tile: direct, with the block's part of x, of w, or of both staged in shared memory first."""

from __future__ import annotations

from typing import Any

from tuner.arithmetic import up
from tuner.layers import FLOAT_BYTES, ConvLayer
from tuner.templates import Baseline, Choice, Constraint, DeviceLimits, KernelTemplate, Launch, Parameter, read_source

MAX_GRID = 65_535
MAX_SUMS = 16


def tile(p: Any, layer: ConvLayer) -> tuple[Any, Any]:
    """Return a block's output rows and columns."""
    whole = p.TILE_WIDTH == 0
    return p.TILE_WIDTH + whole * layer.H_out, p.TILE_WIDTH + whole * layer.W_out


def tiles(p: Any, layer: ConvLayer) -> Any:
    rows, columns = tile(p, layer)
    return up(layer.H_out, rows) * up(layer.W_out, columns)


def rounds(p: Any, layer: ConvLayer) -> Any:
    """Return how often a block's threads walk over the tile."""
    rows, columns = tile(p, layer)
    flat = p.BLOCK_Y == 1
    return flat * up(rows * columns, p.BLOCK_X) + (p.BLOCK_Y != 1) * (up(columns, p.BLOCK_X) * up(rows, p.BLOCK_Y))


def shared_bytes(p: Any, layer: ConvLayer) -> Any:
    rows, columns = tile(p, layer)
    one_by_one = p.CHANNELS == "one"
    channels = one_by_one + (p.CHANNELS == "all") * layer.C
    filters = 1 + (p.CHANNELS == "all") * (p.GRID_LAYOUT == "B,1,1") * (layer.M - 1)
    x_words = p.STAGE_X * channels * (rows + layer.K - 1) * (columns + layer.K - 1)
    w_words = p.STAGE_W * filters * channels * layer.K**2
    return FLOAT_BYTES * (x_words + w_words)


def launch(p: Any, layer: ConvLayer) -> Launch:
    return Launch(
        grid=(layer.B, layer.M if p.GRID_LAYOUT == "B,M,1" else 1, tiles(p, layer)),
        block=(p.BLOCK_X, p.BLOCK_Y, 1),
        shared_bytes=shared_bytes(p, layer),
    )


def figures(p: Any, layer: ConvLayer) -> dict[str, Any]:
    turns = tiles(p, layer) * rounds(p, layer)
    return {
        "shared bytes": shared_bytes(p, layer),
        "rounds": rounds(p, layer),
        "waste": turns * p.BLOCK_X * p.BLOCK_Y / (layer.H_out * layer.W_out),
    }


def fits_grid(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    return (tiles(p, layer) <= MAX_GRID) & ((p.GRID_LAYOUT != "B,M,1") | (layer.M <= MAX_GRID))


def has_pixels(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    rows, columns = tile(p, layer)
    threads = p.BLOCK_X * p.BLOCK_Y
    return (threads <= 64) | (threads < 4 * rows * columns)


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
        Constraint("pixels", has_pixels, "most threads of the block would have no pixel"),
        Constraint(
            "tile",
            lambda p, layer, limits: max(layer.H_out, layer.W_out) > p.TILE_WIDTH,
            "a tile of this width is the whole image",
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
                (p.WEIGHTS == "global") | (layer.M * layer.reduction * FLOAT_BYTES <= limits.constant_bytes)
            ),
            "the weights do not fit constant memory",
        ),
        Constraint(
            "one channel",
            lambda p, layer, limits: (p.CHANNELS == "all") | (layer.C > 1),
            "a single channel is all of them",
        ),
        Constraint(
            "kept sums",
            lambda p, layer, limits: (p.CHANNELS == "all") | (rounds(p, layer) <= MAX_SUMS),
            "the sums kept from channel to channel do not fit a thread's registers",
        ),
        Constraint(
            "shared memory",
            lambda p, layer, limits: shared_bytes(p, layer) <= limits.shared_bytes,
            "the staged x and w do not fit shared memory",
        ),
        Constraint(
            "unroll by K",
            lambda p, layer, limits: (p.CONST_K == 1) | (p.UNROLL == "1") | (p.UNROLL == "2"),
            "unrolling a filter row needs K at compile time",
        ),
        Constraint(
            "unroll a 1x1 filter",
            lambda p, layer, limits: (p.UNROLL == "1") | (layer.K > 1),
            "a 1x1 filter has nothing to unroll",
        ),
        Constraint(
            "unroll by 2",
            lambda p, layer, limits: (p.UNROLL != "2") | (layer.K > 2),
            "unrolling by 2 needs a filter row longer than 2",
        ),
        Constraint(
            "unrolled filter",
            lambda p, layer, limits: (p.UNROLL != "filter") | (layer.K**2 <= 256),
            "the unrolled filter is longer than 256 terms",
        ),
    ),
    launch=launch,
    figures=figures,
    baselines=(
        Baseline("2017 step 2: x and w in shared memory", STEP_2),
        Baseline("2017 step 3: block 1024x1", STEP_3),
        Baseline("2017 step 4: grid (B,1,1)", STEP_4),
        Baseline("2017 step 6: filter unrolled", STEP_6),
        Baseline("2017 final kernel", STEP_7),
    ),
)
