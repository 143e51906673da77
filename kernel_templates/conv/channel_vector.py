"""channel_vector: a CPU's thread keeps a tile of pixels, each in vectors of output channels."""

from __future__ import annotations

from typing import Any

from tuner.kernels.arithmetic import pick, up
from tuner.kernels.sizes import ConvSizes, size
from tuner.kernels.template import (
    OPENCL,
    Baseline,
    Constraint,
    DeviceLimits,
    Heuristic,
    KernelTemplate,
    Launch,
    Parameter,
    read_source,
)
from tuner.problems.conv.layers import FLOAT_BYTES, ConvLayer

MAX_TERMS = 512  # beyond some 700 PoCL unrolls in vain, and loses the sums
WIDEST = 16  # words of a vector: with these a CPU has 32 registers, else 16


class Tile(ConvSizes):
    """The sizes that follow from one configuration (or columns of them)."""

    @size
    def group_m(self) -> Any:
        """output channels of a block"""
        return self.p.VECTOR * self.p.VECTORS

    @property
    def groups(self) -> Any:
        return up(self.layer.M, self.group_m)

    @size
    def block_rows(self) -> Any:
        """output rows of a block"""
        return pick(self.p.ROWS == 0, self.layer.H_out, self.p.ROWS)

    @property
    def bands(self) -> Any:
        return up(self.layer.H_out, self.block_rows)

    @size
    def strips(self) -> Any:
        """tiles side by side"""
        return up(self.layer.W_out, self.p.TILE_W)

    @size
    def row_fours(self) -> Any:
        """stores of 4 pixels in a row of a tile"""
        return up(self.p.TILE_W, 4)

    @property
    def columns(self) -> Any:
        """Columns computed, repeated ones included."""
        return self.strips * self.p.TILE_W

    @property
    def rows(self) -> Any:
        """Rows computed, repeated ones included."""
        return up(self.block_rows, self.p.TILE_H) * self.p.TILE_H * self.bands

    @size
    def sums(self) -> Any:
        """vectors of sums in a tile"""
        return self.p.TILE_H * self.p.TILE_W * self.p.VECTORS

    @property
    def registers(self) -> Any:
        """Sums, a term's weights, a word of x."""
        return self.sums + self.p.VECTORS + 1

    @size
    def w_words(self) -> Any:
        """of the group's filters, staged"""
        return self.layer.reduction * self.group_m

    @property
    def shared_bytes(self) -> Any:
        return FLOAT_BYTES * self.w_words

    @property
    def waste(self) -> Any:
        """Sums computed for each that the layer needs."""
        pixels = self.rows * self.columns / (self.layer.H_out * self.layer.W_out)
        return pixels * self.groups * self.group_m / self.layer.M


def launch(p: Any, layer: ConvLayer) -> Launch:
    tile = Tile(p, layer)
    grid = (up(layer.B, p.IMAGES), tile.bands, tile.groups)
    return Launch(grid=grid, block=(1, 1, 1), shared_bytes=tile.shared_bytes)


def figures(p: Any, layer: ConvLayer) -> dict[str, Any]:
    tile = Tile(p, layer)
    return {"registers": tile.registers, "waste": tile.waste, "shared bytes": tile.shared_bytes}


def in_output(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    return (layer.W_out >= p.TILE_W) & (Tile(p, layer).block_rows >= p.TILE_H)


def few_channels_over(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (tile.group_m == 4) | (tile.groups * tile.group_m < 2 * layer.M)


def short_unrolled(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    terms = layer.K + (p.UNROLL == "filter") * (layer.K**2 - layer.K)
    return terms * Tile(p, layer).sums <= MAX_TERMS


TEMPLATE = KernelTemplate(
    name="channel_vector",
    idea="a CPU's thread keeps a tile of pixels, each in vectors of output channels",
    source=read_source(__file__),
    dialects=(OPENCL,),
    parameters=(
        Parameter(name="VECTOR", choices=(16, 8, 4), doc="output channels in a vector"),
        Parameter(name="VECTORS", choices=(1, 2, 3, 4), doc="vectors of output channels in a tile"),
        Parameter(
            name="TILE_W",
            choices=(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 20, 24, 26, 28),
            doc="output columns of a tile",
        ),
        Parameter(name="TILE_H", choices=(1, 2, 3, 4, 6), doc="output rows of a tile"),
        Parameter(name="UNROLL", choices=("row", "filter"), doc="filter terms unrolled: a row, or the whole filter"),
        Parameter(name="IMAGES", choices=(1, 2, 4, 8), doc="images of a thread"),
        Parameter(name="ROWS", choices=(0, 8, 32), doc="output rows of a thread; 0: the whole image"),
    ),
    constraints=(
        Constraint(
            "vector",
            lambda p, layer, limits: limits.vector_words >= p.VECTOR,
            "the device's vectors are shorter",
        ),
        Constraint("tile", in_output, "the thread's tile is larger than the output"),
        Constraint(
            "one image",
            lambda p, layer, limits: (p.ROWS == 0) | (p.IMAGES == 1),
            "a block owns bands of one image, or whole images",
        ),
        Constraint(
            "shared memory",
            lambda p, layer, limits: Tile(p, layer).shared_bytes <= limits.shared_bytes,
            "the group's weights do not fit shared memory",
        ),
    ),
    heuristics=(
        Heuristic("rows", lambda p, layer, limits: layer.H_out > p.ROWS, "this many rows are the whole image"),
        Heuristic(
            "columns over",
            lambda p, layer, limits: 6 * Tile(p, layer).columns <= 7 * layer.W_out,
            "more than a seventh of the columns computed would be repeated",
        ),
        Heuristic(
            "rows over",
            lambda p, layer, limits: 6 * Tile(p, layer).rows <= 7 * layer.H_out,
            "more than a seventh of the rows computed would be repeated",
        ),
        Heuristic("channels over", few_channels_over, "half of the channels computed would hang over"),
        Heuristic(
            "vector registers",
            lambda p, layer, limits: Tile(p, layer).registers <= 16 + 16 * (limits.vector_words >= WIDEST),
            "the thread's tile does not fit its vector registers",
        ),
        Heuristic(
            "unroll a 1x1 filter",
            lambda p, layer, limits: (p.UNROLL == "row") | (layer.K > 1),
            "a 1x1 filter has nothing to unroll",
        ),
        Heuristic("unrolled loops", short_unrolled, "the unrolled loops are longer than 512 terms"),
    ),
    launch=launch,
    sizes=Tile,
    figures=figures,
    baselines=(
        # Where a search on a CPU had better begin: with AVX-512, without it, and with few channels.
        Baseline("CPU start: 16 channels, 13 pixels", {"VECTOR": 16, "TILE_W": 13}, start=True),
        Baseline("CPU start: 2 x 8 channels, 5 pixels", {"VECTOR": 8, "VECTORS": 2, "TILE_W": 5}, start=True),
        Baseline("CPU start: 8 channels, 9 pixels", {"VECTOR": 8, "TILE_W": 9}, start=True),
    ),
)
