"""warpgroup: the convolution as a matrix product of four warps at once, both operands in shared memory."""

from __future__ import annotations

from typing import Any

from tuner.kernels.arithmetic import one_of, pick, smaller, up
from tuner.kernels.capabilities import WARPGROUPS, keeps_fp32, magnitudes_of_operands
from tuner.kernels.heuristics import block_registers, register_limit
from tuner.kernels.sizes import ConvSizes, size
from tuner.kernels.template import (
    CUDA,
    Baseline,
    Constraint,
    DeviceLimits,
    Heuristic,
    KernelTemplate,
    Launch,
    Parameter,
    read_source,
)
from tuner.problems.conv.layers import ConvLayer

MAX_GROUPS = 8
MANY_CHANNELS = 128
WIDE = 64  # columns of a product for which the tensor cores do not wait for x
FEW_BLOCKS = 64
UNIT_BYTES = 16
MAX_COLUMNS = 256
EXACT = {  # the operands that hold a precision's tolerance, and may be the fastest to
    "fp32": ("fp16x3",),
    "tf32": ("fp16x3", "tf32"),
    "fp16": ("fp16",),
    "bf16": ("bf16",),
}

START: dict[str, int | str] = {"PRODUCER_THREADS": 256, "STAGES": 2, "ASKED": 4}
FEW_CHANNELS: dict[str, int | str] = {"PIXELS_PER_ROW": 2, "BAND": 2, "BLOCK_SHAPE": "384x1", "TILES_PER_BLOCK": 19}
DEEP: dict[str, int | str] = {"TILE_M": 64, "BAND": 4, "BLOCK_SHAPE": "512x1", "EPILOGUE": "shared", "CHANNELS": 16}
STARTS: dict[str, dict[str, int | str]] = {
    "24 channels": {**FEW_CHANNELS, "TILE_M": 24},
    "16 channels": {**FEW_CHANNELS, "TILE_M": 16},
    "64 channels": {**DEEP, "TILES_PER_BLOCK": 8},
    "64 channels in parts": {**DEEP, "WEIGHTS": "parts", "TILES_PER_BLOCK": 2},
}


class Tile(ConvSizes):
    """The sizes that follow from one configuration (or columns of them)."""

    @size
    def threads(self) -> Any:
        """of a block"""
        return self.p.BLOCK_X

    @size
    def warpgroups(self) -> Any:
        """that multiply"""
        return (self.threads - self.p.PRODUCER_THREADS) // 128

    @size
    def stagers(self) -> Any:
        """threads that stage what comes next"""
        return pick(self.p.PRODUCER_THREADS == 0, self.threads, self.p.PRODUCER_THREADS)

    @size
    def parts(self) -> Any:
        """of a factor: larger, smaller"""
        return 1 + 1 * (self.p.MMA_TYPE == "fp16x3")

    @size
    def products(self) -> Any:
        """of a factor's parts"""
        return pick(self.parts == 2, 3, 1)

    @size
    def unit_c(self) -> Any:
        """channels in a unit of 16 bytes; a product takes two units"""
        return pick(self.p.MMA_TYPE == "tf32", 4, 8)

    @size
    def staged_c(self) -> Any:
        """input channels staged at once"""
        return pick(self.p.CHANNELS == 0, self.layer.C, self.p.CHANNELS)

    @size
    def chunks(self) -> Any:
        """parts that the input channels come in"""
        return up(self.layer.C, self.staged_c)

    @size
    def c_units(self) -> Any:
        """units of a pixel's staged channels"""
        return up(self.staged_c, 2 * self.unit_c) * 2

    @size
    def whole_units(self) -> Any:
        """no unit hangs over the last channel"""
        return (self.layer.C % self.staged_c == 0) & (self.staged_c % (2 * self.unit_c) == 0)

    @property
    def groups(self) -> Any:
        return up(self.layer.M, self.p.TILE_M)

    @size
    def channels_over(self) -> Any:
        """groups hang over the last channel"""
        return self.layer.M % self.p.TILE_M != 0

    @size
    def columns(self) -> Any:
        """of a product: channel, shift"""
        return self.p.TILE_M * self.p.PIXELS_PER_ROW

    @size
    def terms(self) -> Any:
        """of a filter row, as it is moved on for each shift"""
        return self.layer.K + self.p.PIXELS_PER_ROW - 1

    @size
    def row_pixels(self) -> Any:
        """of a row of x, filled up to whole rows of the product"""
        return up(self.layer.W, self.p.PIXELS_PER_ROW) * self.p.PIXELS_PER_ROW

    @property
    def image_tiles(self) -> Any:
        rows = (self.layer.H_out - 1) * self.row_pixels // self.p.PIXELS_PER_ROW + up(
            self.layer.W_out, self.p.PIXELS_PER_ROW
        )
        return up(rows, 64)

    @size
    def band_tiles(self) -> Any:
        """tiles of 64 rows of the product in a band"""
        return pick(self.p.BAND == 0, self.image_tiles, self.p.BAND)

    @size
    def bands(self) -> Any:
        """of an image"""
        return up(self.image_tiles, self.band_tiles)

    @size
    def tiles(self) -> Any:
        """of a block"""
        return self.p.IMAGES * self.band_tiles

    @size
    def own_tiles(self) -> Any:
        """of a warpgroup"""
        return up(self.tiles, self.warpgroups)

    @property
    def registers(self) -> Any:
        return self.own_tiles * self.columns // 2 + pick(self.p.PRODUCER_THREADS == 0, 64, 32)

    @size
    def block_steps(self) -> Any:
        """parts of the channels of parts of the batch that a block goes through"""
        return self.p.TILES_PER_BLOCK * self.chunks

    @property
    def work(self) -> Any:
        return up(self.layer.B, self.p.IMAGES) * self.bands

    @size
    def pitch(self) -> Any:
        """units from shift to shift of x: every PIXELS_PER_ROW-th pixel of a band and of what its filters reach"""
        reach = self.band_tiles * 64 + ((self.layer.K - 1) * self.row_pixels + self.terms - 1) // self.p.PIXELS_PER_ROW
        apart = 8 // self.p.PIXELS_PER_ROW
        return pick(self.p.PIXELS_PER_ROW == 1, reach, up(reach - apart, 8) * 8 + apart)

    @size
    def x_units(self) -> Any:
        """of x in a set of staged words"""
        return self.p.IMAGES * self.c_units * self.p.PIXELS_PER_ROW * self.pitch

    @size
    def x_batch(self) -> Any:
        """of them that a thread asks for at once"""
        return self.batch(self.x_units)

    @size
    def w_pitch(self) -> Any:
        """units of a filter's term; neighbouring terms lie in other banks"""
        return self.c_units * self.columns + 1

    @size
    def w_units(self) -> Any:
        """of w in a set"""
        return self.layer.K * self.terms * self.w_pitch

    @size
    def w_items(self) -> Any:
        """units of w before they are shifted"""
        return self.p.TILE_M * self.c_units * self.layer.K**2

    @size
    def w_batch(self) -> Any:
        """of them that a thread asks for at once"""
        return self.batch(self.w_items)

    @size
    def keep_w(self) -> Any:
        """filters stay in shared memory"""
        return self.p.WEIGHTS == "resident"

    @size
    def w_sets(self) -> Any:
        """sets of w"""
        return pick(self.keep_w, self.chunks, self.p.STAGES)

    @size
    def row_channels(self) -> Any:
        """written at once by way of shared memory"""
        return smaller(self.p.TILE_M, 32 // self.p.PIXELS_PER_ROW)

    @size
    def row_fours(self) -> Any:
        """of these channels, a warp each"""
        return up(self.row_channels, 4)

    @size
    def row_pitch(self) -> Any:
        """words of a channel; neighbouring channels lie in other banks"""
        return 68 * self.p.PIXELS_PER_ROW

    @size
    def written(self) -> Any:
        """the first barrier of a warpgroup's rows"""
        return 1 + 2 * self.p.STAGES

    @property
    def row_units(self) -> Any:
        rows = self.warpgroups * self.row_channels * self.row_pitch // 4
        return (self.p.EPILOGUE == "shared") * rows

    @size
    def shared_units(self) -> Any:
        """all of shared memory, 16 bytes each"""
        return self.parts * (self.p.STAGES * self.x_units + self.w_sets * self.w_units) + self.row_units

    @property
    def shared_bytes(self) -> Any:
        return UNIT_BYTES * self.shared_units

    def batch(self, items: Any) -> Any:
        """Return how many units, of so many in all, a thread asks for at once."""
        return smaller(up(items, self.stagers), self.p.ASKED * 8 // self.unit_c)

    @property
    def waste(self) -> Any:
        """Products computed for each that the layer needs."""
        pixels = self.own_tiles * self.warpgroups * 64 * self.p.PIXELS_PER_ROW * self.bands / self.p.IMAGES
        channels = self.c_units * self.unit_c * self.chunks / self.layer.C
        over = pixels / (self.layer.H_out * self.layer.W_out) * channels * (self.terms / self.layer.K)
        return over * (self.groups * self.p.TILE_M / self.layer.M)


def launch(p: Any, layer: ConvLayer) -> Launch:
    tile = Tile(p, layer)
    return Launch(
        grid=(up(tile.work, p.TILES_PER_BLOCK), tile.groups, 1),
        block=(p.BLOCK_X, 1, 1),
        shared_bytes=tile.shared_bytes,
    )


def figures(p: Any, layer: ConvLayer) -> dict[str, Any]:
    tile = Tile(p, layer)
    return {
        "shared bytes": tile.shared_bytes,
        "blocks": up(tile.work, p.TILES_PER_BLOCK) * tile.groups,
        "waste": tile.waste,
    }


def exact_sums(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    added = 3 * tile.chunks * (tile.c_units // 2) * layer.K**2
    return keeps_fp32(added, layer.reduction, limits)


def few_channels_over(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return tile.c_units * tile.unit_c * tile.chunks <= 2 * layer.C


def few_pixels_over(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.BAND == 0) | (6 * tile.bands * tile.band_tiles <= 7 * tile.image_tiles)


def few_turns_over(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return 6 * tile.own_tiles * tile.warpgroups <= 7 * tile.tiles


def busy(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.TILES_PER_BLOCK == 1) | (up(tile.work, p.TILES_PER_BLOCK) * tile.groups >= FEW_BLOCKS)


def registers(p: Any, layer: ConvLayer) -> Any:
    return Tile(p, layer).registers


TEMPLATE = KernelTemplate(
    name="warpgroup",
    idea="a matrix product of four warps at once, x and w read by the tensor cores from shared memory",
    source=read_source(__file__),
    dialects=(CUDA,),
    parameters=(
        Parameter(
            name="MMA_TYPE",
            choices=("fp16x3", "tf32", "fp16", "bf16"),
            doc="what factors are rounded to; fp16x3 holds FP32's accuracy as a sum of 3 products",
        ),
        Parameter(
            name="TILE_M",
            choices=(8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256),
            doc="output channels of a block",
        ),
        Parameter(
            name="PIXELS_PER_ROW",
            choices=(1, 2, 4),
            doc="neighbouring pixels that a row of the product stands for, the filter shifted for each",
        ),
        Parameter(
            name="BAND", choices=(0, 1, 2, 3, 4, 5, 6, 8, 12), doc="tiles of 64 pixels of a block; 0: the whole image"
        ),
        Parameter(name="IMAGES", choices=(1, 2, 3, 4), doc="images of a block at once"),
        Parameter(
            name="BLOCK_SHAPE",
            choices=tuple(f"{threads}x1" for threads in (128, 256, 384, 512, 640, 768)),
            doc="threads of a block, 128 a warpgroup",
        ),
        Parameter(
            name="PRODUCER_THREADS",
            choices=(0, 128, 256),
            doc="threads that only stage what the others multiply next; 0: all do both",
        ),
        Parameter(
            name="EPILOGUE",
            choices=("direct", "shared"),
            doc="a store is 8 pixels of 4 channels, or 32 pixels of one by way of shared memory",
        ),
        Parameter(name="CHANNELS", choices=(0, 8, 16, 32, 64), doc="input channels staged at once; 0: all"),
        Parameter(
            name="WEIGHTS",
            choices=("resident", "parts"),
            doc="filters stay in shared memory with all their channels, or come in parts as x does",
        ),
        Parameter(name="MIN_BLOCKS", choices=(1, 2, 3), doc="blocks resident at once; limits a thread's registers"),
        Parameter(
            name="TILES_PER_BLOCK",
            choices=(1, 2, 3, 4, 6, 8, 12, 19, 38),
            doc="bands, or sets of images, that a block handles in turn",
        ),
        Parameter(
            name="STAGES",
            choices=(1, 2, 3, 4),
            doc="sets of staged words; with more than 1 the next arrive during these",
        ),
        Parameter(name="ASKED", choices=(2, 4), doc="units of 8 channels that a thread asks for at once"),
    ),
    constraints=(
        Constraint(
            "warpgroups",
            lambda p, layer, limits: (p.TILE_M > 0) & (limits.capability == WARPGROUPS),
            "only sm_90a multiplies by warpgroups",
        ),
        Constraint(
            "precision",
            lambda p, layer, limits: one_of(p.MMA_TYPE, EXACT[limits.precision]),
            "these operands are rounded further than the precision asked for, or need not be as exact",
        ),
        Constraint(
            "exact sums", exact_sums, "so many terms are too many for FP32's accuracy: tensor cores round toward zero"
        ),
        Constraint(
            "threads",
            lambda p, layer, limits: limits.max_threads >= p.BLOCK_X,
            "a block has more threads than the device allows",
        ),
        Constraint(
            "product",
            lambda p, layer, limits: Tile(p, layer).columns <= MAX_COLUMNS,
            "a product is at most 256 columns wide",
        ),
        Constraint(
            "multipliers", lambda p, layer, limits: p.BLOCK_X > p.PRODUCER_THREADS, "some threads have to multiply"
        ),
        Constraint(
            "use of loaders",
            lambda p, layer, limits: (p.PRODUCER_THREADS == 0) | (p.STAGES > 1),
            "what loaders fetch needs a buffer of its own",
        ),
        Constraint(
            "many buffers",
            lambda p, layer, limits: (p.PRODUCER_THREADS > 0) | (p.STAGES <= 2),
            "more than two buffers serve loaders alone",
        ),
        Constraint(
            "equal rows",
            lambda p, layer, limits: (p.EPILOGUE == "direct") | (p.TILE_M % Tile(p, layer).row_channels == 0),
            "channels are written in equal parts",
        ),
        Constraint(
            "whole products",
            lambda p, layer, limits: (p.CHANNELS == 0) | (p.CHANNELS % (2 * Tile(p, layer).unit_c) == 0),
            "a part of the channels is less than a product takes",
        ),
        Constraint(
            "one image",
            lambda p, layer, limits: (p.BAND == 0) | (p.IMAGES == 1),
            "a block owns bands of one image, or whole images",
        ),
        Constraint(
            "next words",
            lambda p, layer, limits: p.TILES_PER_BLOCK * Tile(p, layer).chunks >= p.STAGES,
            "more buffers than a block has steps",
        ),
        Constraint(
            "shared memory",
            lambda p, layer, limits: Tile(p, layer).shared_bytes <= limits.shared_bytes,
            "the staged x and w do not fit shared memory",
        ),
    ),
    heuristics=(
        Heuristic("some channels", lambda p, layer, limits: layer.C > p.CHANNELS, "this many channels are all of them"),
        Heuristic(
            "input channels over", few_channels_over, "more than half of the channels multiplied would hang over"
        ),
        Heuristic(
            "use of shifts",
            lambda p, layer, limits: (p.PIXELS_PER_ROW == 1) | (Tile(p, layer).columns <= WIDE),
            "a product this wide gains nothing by shifts",
        ),
        Heuristic(
            "shifts over",
            lambda p, layer, limits: 6 * up(layer.W_out, p.PIXELS_PER_ROW) * p.PIXELS_PER_ROW <= 7 * layer.W_out,
            "more than a seventh of the shifted pixels would hang over",
        ),
        Heuristic(
            "channels over",
            lambda p, layer, limits: 6 * p.TILE_M * Tile(p, layer).groups <= up(layer.M, 8) * 8 * 7,
            "more than a seventh of the channels computed would hang over",
        ),
        Heuristic("band", lambda p, layer, limits: Tile(p, layer).image_tiles > p.BAND, "a band is less than an image"),
        Heuristic("pixels over", few_pixels_over, "more than a seventh of the pixels computed would hang over"),
        Heuristic("turns", few_turns_over, "more than a seventh of the warpgroups' turns would be empty"),
        Heuristic(
            "thread registers",
            lambda p, layer, limits: Tile(p, layer).registers <= 255,
            "the warpgroup's tiles do not fit its registers",
        ),
        block_registers(registers),
        register_limit(registers, "the warpgroup's tiles are"),
        Heuristic(
            "kept filters",
            lambda p, layer, limits: (p.WEIGHTS == "resident") | (Tile(p, layer).chunks > 1),
            "filters that are staged once stay resident",
        ),
        Heuristic(
            "few groups",
            lambda p, layer, limits: (p.TILE_M >= MANY_CHANNELS) | (Tile(p, layer).groups <= MAX_GROUPS),
            "more than 8 blocks would stage the same x for few channels each",
        ),
        Heuristic("busy device", busy, "turns leave fewer than 64 blocks"),
    ),
    launch=launch,
    sizes=Tile,
    figures=figures,
    magnitudes=magnitudes_of_operands,
    baselines=tuple(  # so that a search knows of this template from the first; valid for one layer or another
        Baseline(f"warpgroups: {operands}, {name}", {**START, **values, "MMA_TYPE": operands}, start=True)
        for operands in ("fp16x3", "tf32", "fp16", "bf16")
        for name, values in STARTS.items()
    ),
)
