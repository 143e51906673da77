"""tensor_core: the convolution as a matrix product on tensor cores, without writing the unrolled matrix down."""

from __future__ import annotations

from typing import Any

from tuner.kernels.arithmetic import one_of, pick, smaller, up
from tuner.kernels.capabilities import BULK_COPIES, CLUSTERS, TENSOR_CORES, keeps_fp32, magnitudes_of_operands
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
from tuner.problems.conv.layers import FLOAT_BYTES, ConvLayer

MAX_GRID = 65_535
MAX_PRODUCTS = 256
FEW_BLOCKS = 512  # that leave many of a large device's multiprocessors idle
MAX_BURST_BYTES = 4_800_000  # longer ones of reads hold up the writes of y
EXACT = {  # the operands that hold a precision's tolerance, and may be the fastest to
    "fp32": ("tf32x3", "fp16x3", "fp16x4"),
    "tf32": ("fp16x3", "fp16x4", "tf32"),  # tf32x3 reads the same words as tf32, for three products
    "fp16": ("fp16x3", "fp16x4", "tf32", "fp16"),
    "bf16": ("fp16x3", "fp16x4", "tf32", "fp16", "bf16"),
}
START: dict[str, int | str] = {"MMA_TYPE": "fp16x4", "TILE_ROWS": 2, "TILE_COLUMNS": 16, "BLOCK_SHAPE": "256x1"}
PAIRS: dict[str, int | str] = {"IMAGES": 2, "BLOCK_SHAPE": "128x1"}
KEPT: dict[str, int | str] = {
    "MMA_TYPE": "fp16x4",
    "TILE_ROWS": 1,
    "TILE_COLUMNS": 16,
    "TILE_M": 10,
    "PIXELS_PER_ROW": 4,
    "EPILOGUE": "vector",
    "BLOCK_SHAPE": "160x1",
    "WEIGHTS": "registers",
    "PREFETCH": 512,
}
# For layers of one or few channels.
FEW: dict[str, int | str] = {"MMA_TYPE": "fp16x4", "TILE_COLUMNS": 16, "BLOCK_SHAPE": "128x1"}
BURSTS: dict[str, int | str] = {"WEIGHTS": "registers", "PREFETCH": 256}


class Tile(ConvSizes):
    """The sizes that follow from one configuration (or columns of them)."""

    @size
    def threads(self) -> Any:
        """of a block"""
        return self.p.BLOCK_X

    @size
    def warps(self) -> Any:
        """of a block"""
        return self.threads // 32

    @size
    def tf32(self) -> Any:
        """words of operands are TF32, else pairs of halves"""
        return (self.p.MMA_TYPE == "tf32x3") | (self.p.MMA_TYPE == "tf32")

    @size
    def paired(self) -> Any:
        """a word is two channels"""
        return one_of(self.p.MMA_TYPE, ("fp16x3", "fp16", "bf16"))

    @size
    def parts(self) -> Any:
        """words of a factor: larger, smaller"""
        return 1 + one_of(self.p.MMA_TYPE, ("tf32x3", "fp16x3"))

    @size
    def products(self) -> Any:
        """instructions for a product"""
        return pick(self.parts == 2, 3, 1 + (self.p.MMA_TYPE == "fp16x4"))

    @size
    def fragment(self) -> Any:
        """words of w that a lane has of a product"""
        return 2 * self.parts

    @size
    def block_rows(self) -> Any:
        """output rows of a block"""
        return pick(self.p.ROWS == 0, self.layer.H_out, self.p.ROWS)

    @property
    def bands(self) -> Any:
        return up(self.layer.H_out, self.block_rows)

    @property
    def in_rows(self) -> Any:
        return self.block_rows + self.layer.K - 1

    @size
    def staged_c(self) -> Any:
        """input channels staged at once"""
        return pick(self.p.CHANNELS == 0, self.layer.C, self.p.CHANNELS)

    @size
    def chunks(self) -> Any:
        """parts that the input channels come in"""
        return self.layer.C // self.staged_c

    @size
    def own_chunks(self) -> Any:
        """of a block of a cluster"""
        return self.chunks // self.p.SPLIT_K

    @size
    def block_steps(self) -> Any:
        """parts of the channels of sets of images that a block goes through"""
        return self.p.TILES_PER_BLOCK * self.own_chunks

    @size
    def word_c(self) -> Any:
        """channels, or pairs of them, staged at once"""
        return up(self.staged_c, 1 + self.paired)

    @size
    def window(self) -> Any:
        """words of an image row that the terms of a channel are"""
        return self.layer.K + self.p.PIXELS_PER_ROW - 1

    @size
    def steps(self) -> Any:
        """of 8 words of terms"""
        return up(self.word_c * self.window, 8)

    @size
    def octets(self) -> Any:
        """of a tile's columns; two are the 16 pixels of a product"""
        return self.p.TILE_COLUMNS // 8

    @property
    def m_tiles(self) -> Any:
        return self.octets // 2 * self.p.TILE_ROWS

    @size
    def n_tiles(self) -> Any:
        """products side by side: 8 columns each"""
        return self.p.TILE_M * self.p.PIXELS_PER_ROW // 8

    @size
    def read_rows(self) -> Any:
        """rows of x that a warp reads for a tile"""
        return self.p.TILE_ROWS + self.layer.K - 1

    @size
    def row_tiles(self) -> Any:
        """of an image, or of the rows of a block"""
        return up(self.block_rows, self.p.TILE_ROWS)

    @size
    def row_columns(self) -> Any:
        """of a row of y, PIXELS_PER_ROW pixels each"""
        return up(self.layer.W_out, self.p.PIXELS_PER_ROW)

    @size
    def beyond(self) -> Any:
        """words read past a row, for pixels that are not written"""
        return self.row_columns * self.p.PIXELS_PER_ROW - self.layer.W_out

    @size
    def rows_over(self) -> Any:
        """tiles hang over the last row, which is asked for then"""
        return (self.layer.H_out % self.block_rows != 0) | (self.block_rows % self.p.TILE_ROWS != 0)

    @size
    def columns(self) -> Any:
        """of all images of a block"""
        return self.p.IMAGES * self.row_tiles * self.row_columns

    @size
    def column_tasks(self) -> Any:
        """tiles that they make"""
        return up(self.columns, self.p.TILE_COLUMNS)

    @size
    def neighbours(self) -> Any:
        """a lane has a vector of columns"""
        return (self.p.EPILOGUE == "vector") & (self.p.PIXELS_PER_ROW == 1)

    @size
    def stored(self) -> Any:
        """words written at once, where a row of the product is several pixels"""
        return 1 + (self.p.PIXELS_PER_ROW > 1) * (self.layer.W_out % 2 == 0)

    @size
    def bulk(self) -> Any:
        """rows are gathered and copied in bulk"""
        return self.p.EPILOGUE == "bulk"

    @size
    def together(self) -> Any:
        """all warps go through an epilogue together, with a task or without"""
        return self.bulk | (self.p.SPLIT_K > 1)

    @property
    def groups(self) -> Any:
        return up(self.layer.M, self.p.TILE_M)

    @size
    def channels_over(self) -> Any:
        """groups hang over the last channel"""
        return self.layer.M % self.p.TILE_M != 0

    @size
    def loop_m(self) -> Any:
        """a block computes all groups of channels"""
        return self.p.GRID_LAYOUT == "B,1,1"

    @size
    def block_groups(self) -> Any:
        """groups of TILE_M channels of a block"""
        return pick(self.loop_m, self.groups, 1)

    @size
    def block_n_tiles(self) -> Any:
        """products side by side, of all groups of a block"""
        return self.block_groups * self.n_tiles

    @size
    def tasks(self) -> Any:
        """of a block, for a warp each"""
        return self.block_groups * self.column_tasks

    @size
    def rounds(self) -> Any:
        """tasks of a warp, one after the other"""
        return up(self.tasks, self.warps)

    @size
    def group_rounds(self) -> Any:
        """those of one group of channels"""
        return up(self.column_tasks, self.warps)

    @size
    def sums(self) -> Any:
        """of a lane"""
        return 4 * self.m_tiles * self.n_tiles

    @size
    def swap_x(self) -> Any:
        """fp16x4: x is doubled, its halves swapped"""
        few = self.octets * self.read_rows <= self.layer.K * self.n_tiles
        return (self.p.MMA_TYPE == "fp16x4") & few

    @size
    def split_w(self) -> Any:
        """fp16x4: halves of w are doubled"""
        return (self.p.MMA_TYPE == "fp16x4") & (self.swap_x == 0)

    @size
    def x_parts(self) -> Any:
        """words of x that a lane has of a pixel and term"""
        return pick(self.swap_x, 2, self.parts)

    @size
    def keep_w(self) -> Any:
        """weights stay in registers"""
        return self.p.WEIGHTS == "registers"

    @size
    def kept(self) -> Any:
        """fragments of w in registers"""
        return pick(self.keep_w, self.layer.K * self.n_tiles, 1)

    @property
    def registers(self) -> Any:
        read = self.octets // 2 * self.read_rows * self.parts * 4
        return self.sums + read + self.kept * self.fragment + 40

    @size
    def plane(self) -> Any:
        """words of a staged channel of an image"""
        return self.in_rows * self.layer.W

    @size
    def run(self) -> Any:
        """words that lie together in x and in shared memory"""
        return pick(self.p.ROWS == 0, self.plane, self.layer.W)

    @size
    def runs(self) -> Any:
        """of a channel"""
        return pick(self.p.ROWS == 0, 1, self.in_rows)

    @size
    def load_width(self) -> Any:
        """words of x copied at once"""
        return 1 + (self.run % 2 == 0) * 1 + (self.run % 4 == 0) * 2

    @size
    def x_words(self) -> Any:
        """of x in a set of staged words"""
        return up(self.p.IMAGES * self.staged_c * self.plane + self.beyond, 4) * 4

    @size
    def overhang(self) -> Any:
        """words read past an image for rows that are not written"""
        return up((self.row_tiles * self.p.TILE_ROWS - self.block_rows) * self.layer.W, 4) * 4

    @size
    def w_words(self) -> Any:
        """of w, as lanes read them"""
        words = self.steps * self.layer.K * self.block_n_tiles * 32 * self.fragment
        return pick(self.keep_w, 0, words)

    @property
    def w_channels(self) -> Any:
        return self.block_groups * self.p.TILE_M

    @size
    def w_columns(self) -> Any:
        """of all filters, or pairs of them"""
        return self.word_c * self.layer.K * self.w_channels

    @size
    def w_batch(self) -> Any:
        """columns that a thread reads before it uses the first"""
        return smaller(up(12, self.layer.K), up(self.w_columns, self.threads))

    @size
    def round_columns(self) -> Any:
        """of a round's tasks"""
        return self.warps * self.p.TILE_COLUMNS

    @size
    def row_tile(self) -> Any:
        """words of y in a row tile"""
        return self.p.TILE_ROWS * self.layer.W_out

    @size
    def ring(self) -> Any:
        """row tiles that a round touches"""
        return smaller(up(self.round_columns, self.row_columns) + 1, self.p.IMAGES * self.row_tiles)

    @size
    def ring_pitch(self) -> Any:
        """words from channel to channel; lanes t write to banks apart"""
        banks = 4 * self.p.PIXELS_PER_ROW
        return (up(self.ring * self.row_tile + banks, 2 * banks) * 2 - 1) * banks

    @size
    def ring_words(self) -> Any:
        """of gathered sums"""
        return self.bulk * smaller(self.p.TILE_M, self.layer.M) * self.ring_pitch

    @size
    def async_w(self) -> Any:
        """filters arrive as they are, with words of x"""
        return self.p.COPY_BY == "cp_async"

    @size
    def raw_w(self) -> Any:
        """words of a filter's staged channels"""
        return self.staged_c * self.layer.K**2

    @size
    def raw_width(self) -> Any:
        """of them copied at once"""
        four = (self.raw_w % 4 == 0) & (self.layer.reduction % 4 == 0)
        two = (self.raw_w % 2 == 0) & (self.layer.reduction % 2 == 0)
        return 1 + two * 1 + four * 2

    @size
    def raw_pitch(self) -> Any:
        """words from filter to filter"""
        return up(self.raw_w, 4) * 4 + 4

    @size
    def raw_filters(self) -> Any:
        """of a block"""
        return self.w_channels

    @property
    def raw_words(self) -> Any:
        return self.async_w * self.w_channels * self.raw_pitch

    @size
    def share(self) -> Any:
        """sets of images whose x one block asks for, ahead"""
        return 8

    @size
    def shared_words(self) -> Any:
        """all of shared memory"""
        staged = self.p.STAGES * self.x_words + self.overhang + self.w_words
        return staged + self.steps * 4 + self.ring_words + self.raw_words

    @property
    def shared_bytes(self) -> Any:
        return FLOAT_BYTES * self.shared_words

    @property
    def waste(self) -> Any:
        """Products computed for each that the layer needs, times turns of a warp for each that has a task."""
        rows = self.bands * self.row_tiles * self.p.TILE_ROWS / self.layer.H_out
        columns = self.column_tasks * self.p.TILE_COLUMNS / self.columns * (self.row_columns * self.p.PIXELS_PER_ROW)
        terms = self.steps * 8 / (self.layer.K * self.word_c)
        over = rows * columns / self.layer.W_out * terms * (self.groups * self.p.TILE_M / self.layer.M)
        return over * self.rounds * self.warps / self.tasks


def launch(p: Any, layer: ConvLayer) -> Launch:
    tile = Tile(p, layer)
    return Launch(
        grid=(up(up(layer.B, p.IMAGES), p.TILES_PER_BLOCK), up(tile.groups, tile.block_groups), tile.bands * p.SPLIT_K),
        block=(p.BLOCK_X, 1, 1),
        shared_bytes=tile.shared_bytes,
    )


def figures(p: Any, layer: ConvLayer) -> dict[str, Any]:
    tile = Tile(p, layer)
    return {"shared bytes": tile.shared_bytes, "rounds": tile.rounds, "waste": tile.waste}


def exact_sums(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    useful = smaller(tile.steps, tile.word_c * layer.K)  # steps that hold a term of a given pixel
    products = pick(p.MMA_TYPE == "fp16x4", 2, 3)
    added = products * tile.own_chunks * useful * layer.K
    return keeps_fp32(added, layer.reduction, limits)


def large_image(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    staged = 2 * FLOAT_BYTES * tile.staged_c * layer.H * layer.W
    return (p.ROWS == 0) | (staged > limits.shared_bytes) | (layer.B * tile.groups < FEW_BLOCKS)


def ends_in_operands(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (tile.beyond == 0) | ((p.ROWS == 0) & ((tile.paired == 0) | (p.MMA_TYPE == "fp16x3")))


def few_rows_over(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.TILE_ROWS == 1) | (6 * tile.row_tiles * p.TILE_ROWS * tile.bands <= 7 * layer.H_out)


def few_columns_over(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.TILE_COLUMNS == 16) | (6 * tile.column_tasks * p.TILE_COLUMNS <= 7 * tile.columns)


def few_idle(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (tile.warps == 1) | (4 * tile.rounds * tile.warps <= 5 * tile.tasks)


def short_unrolled(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return p.UNROLL * layer.K * tile.n_tiles * tile.m_tiles <= MAX_PRODUCTS


def one_step(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.WEIGHTS == "shared") | ((tile.steps == 1) & (tile.chunks == 1))


def own_group(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.WEIGHTS == "shared") | (tile.warps % tile.block_groups == 0)


def groups_by_warps(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    odd = one_of(p.BLOCK_X, (160, 224, 320))
    return (odd == 0) | ((p.WEIGHTS == "registers") & (Tile(p, layer).block_groups > 1))


def whole_images(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    whole = (p.ROWS == 0) & (Tile(p, layer).chunks == 1) & (p.GRID_LAYOUT == "B,1,1")
    return (p.PREFETCH == 0) | (whole & (p.TILES_PER_BLOCK == 1))


def short_bursts(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    words = layer.C * layer.H * layer.W
    short = FLOAT_BYTES * p.PREFETCH * p.IMAGES * words <= MAX_BURST_BYTES
    few_reads = 4 * words <= layer.M * layer.H_out * layer.W_out
    return (p.PREFETCH == 0) | (short & few_reads & (up(layer.B, p.IMAGES) >= 4 * p.PREFETCH))


def sixteen_bytes(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    apart = (tile.row_tile % 4 == 0) & (layer.H_out * layer.W_out % 4 == 0) & (tile.block_rows * layer.W_out % 4 == 0)
    return (p.EPILOGUE != "bulk") | apart


def one_group_at_a_time(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    in_turn = (tile.column_tasks % tile.warps == 0) & (p.WEIGHTS == "shared")
    return (p.EPILOGUE != "bulk") | (tile.block_groups == 1) | in_turn


def loops_over_groups(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.GRID_LAYOUT == "B,1,1") | (tile.chunks > 1) | (up(layer.B, p.IMAGES) * tile.bands < FEW_BLOCKS)


def few_blocks(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.SPLIT_K == 1) | (up(layer.B, p.IMAGES) * up(tile.groups, tile.block_groups) * tile.bands < FEW_BLOCKS)


def adds_once(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    return (p.SPLIT_K == 1) | ((p.TILES_PER_BLOCK == 1) & (p.EPILOGUE != "bulk"))


def sums_fit(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (p.SPLIT_K == 1) | (FLOAT_BYTES * tile.sums * p.BLOCK_X <= tile.shared_bytes)


def registers(p: Any, layer: ConvLayer) -> Any:
    return Tile(p, layer).registers


TEMPLATE = KernelTemplate(
    name="tensor_core",
    idea="a matrix product on tensor cores, its operands read straight from the image in shared memory",
    source=read_source(__file__),
    dialects=(CUDA,),
    parameters=(
        Parameter(
            name="MMA_TYPE",
            choices=("tf32x3", "fp16x3", "fp16x4", "tf32", "fp16", "bf16"),
            doc="what factors are rounded to; those with x hold FP32's accuracy as a sum of 3 or 4 products",
        ),
        Parameter(name="TILE_ROWS", choices=(1, 2, 3, 4, 5, 6, 8), doc="output rows of a warp"),
        Parameter(name="TILE_COLUMNS", choices=(16, 32), doc="output columns of a warp"),
        Parameter(name="TILE_M", choices=(4, 6, 8, 10, 12, 16, 24, 32, 40, 48, 56), doc="output channels of a warp"),
        Parameter(
            name="PIXELS_PER_ROW",
            choices=(1, 2, 4),
            doc="neighbouring pixels that a row of the product stands for, the filter shifted for each",
        ),
        Parameter(
            name="EPILOGUE",
            choices=("shuffle", "vector", "bulk"),
            doc="a store is a row by lanes' exchange, neighbouring columns, or whole rows copied in bulk",
        ),
        Parameter(name="ROWS", choices=(0, 4, 8, 32), doc="output rows of a block; 0: the whole image"),
        Parameter(
            name="GRID_LAYOUT",
            choices=("B,1,1", "B,M,1"),
            doc="a block computes all output channels, or the blocks along y share them out",
        ),
        Parameter(name="IMAGES", choices=(1, 2, 3, 4, 8), doc="images of a block at once"),
        Parameter(
            name="BLOCK_SHAPE",
            choices=tuple(f"{threads}x1" for threads in (32, 64, 128, 160, 192, 224, 256, 320, 384, 512)),
            doc="threads of a block",
        ),
        Parameter(name="CHANNELS", choices=(0, 2, 8, 16, 32), doc="input channels staged at once; 0: all"),
        Parameter(
            name="COPY_BY",
            choices=("register", "cp_async"),
            doc="copies of w: through registers, or asynchronous beside those of x, where channels come in parts",
        ),
        Parameter(
            name="SPLIT_K",
            choices=(1, 2, 4, 8),
            doc="blocks that share out the input channels; one of them adds up the sums",
        ),
        Parameter(
            name="WEIGHTS",
            choices=("shared", "registers"),
            doc="w is read from shared memory for each task, or a warp keeps its group's in registers",
        ),
        Parameter(name="MIN_BLOCKS", choices=(1, 2), doc="blocks resident at once; limits a thread's registers"),
        Parameter(
            name="TILES_PER_BLOCK", choices=(1, 4, 10, 19, 38), doc="sets of images that a block handles in turn"
        ),
        Parameter(name="STAGES", choices=(1, 2), doc="sets of staged words; 2: the next arrive during these"),
        Parameter(
            name="PREFETCH",
            choices=(0, 256, 512),
            doc="sets of images whose x is brought into the L2 cache in one burst, ahead of the blocks that read it",
        ),
        Parameter(name="UNROLL", choices=(1, 2), doc="steps of 8 terms unrolled"),
    ),
    constraints=(
        Constraint(
            "tensor cores",
            lambda p, layer, limits: (p.TILE_M > 0) & (limits.capability >= TENSOR_CORES),
            "this device has no tensor cores for TF32",
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
            "one image",
            lambda p, layer, limits: (p.ROWS == 0) | (p.IMAGES == 1),
            "a block owns bands of one image, or whole images",
        ),
        Constraint(
            "products", lambda p, layer, limits: p.TILE_M * p.PIXELS_PER_ROW % 8 == 0, "a product is 8 columns wide"
        ),
        Constraint("words beyond", ends_in_operands, "what follows a row of x is no operand"),
        Constraint(
            "vectors of sums",
            lambda p, layer, limits: (
                (p.EPILOGUE != "vector") | (p.PIXELS_PER_ROW > 1) | (layer.W_out % Tile(p, layer).octets == 0)
            ),
            "a row does not end with a vector of sums",
        ),
        Constraint(
            "bulk copies",
            lambda p, layer, limits: ((p.EPILOGUE != "bulk") & (p.PREFETCH == 0)) | (limits.capability >= BULK_COPIES),
            "this device does not copy in bulk",
        ),
        Constraint("rows in bulk", sixteen_bytes, "rows to copy in bulk do not begin at multiples of 16 bytes"),
        Constraint(
            "groups in bulk",
            one_group_at_a_time,
            "sums are gathered of one group of channels at a time",
        ),
        Constraint(
            "grid",
            lambda p, layer, limits: (Tile(p, layer).groups <= MAX_GRID) & (Tile(p, layer).bands <= MAX_GRID),
            "a grid has at most 65,535 blocks along y and z",
        ),
        Constraint(
            "equal channels",
            lambda p, layer, limits: layer.C % Tile(p, layer).staged_c == 0,
            "channels are staged in equal parts",
        ),
        Constraint(
            "asynchronous",
            lambda p, layer, limits: (p.COPY_BY == "register") | (Tile(p, layer).chunks > 1),
            "filters that are staged once gain nothing by arriving asynchronously",
        ),
        Constraint(
            "kept sums",
            lambda p, layer, limits: (Tile(p, layer).chunks == 1) | (Tile(p, layer).rounds == 1),
            "sums kept from channel to channel allow one task a warp",
        ),
        Constraint(
            "pairs of channels",
            lambda p, layer, limits: (p.MMA_TYPE != "fp16x3") | (Tile(p, layer).staged_c % 2 == 0),
            "channels come in pairs here",
        ),
        Constraint(
            "clusters",
            lambda p, layer, limits: (p.SPLIT_K == 1) | (limits.capability >= CLUSTERS),
            "this device has no clusters of blocks",
        ),
        Constraint(
            "shares of channels",
            lambda p, layer, limits: (p.SPLIT_K == 1) | (Tile(p, layer).chunks % p.SPLIT_K == 0),
            "the staged parts of the channels do not share out evenly",
        ),
        Constraint("sums of a cluster", adds_once, "sums of a cluster are added once, and written by lanes"),
        Constraint("sums that fit", sums_fit, "the sums to add up do not fit where x and w were"),
        Constraint("kept weights", one_step, "registers keep the weights of one step"),
        Constraint("kept groups", own_group, "each warp keeps the weights of one group of channels"),
        Constraint("blocks to come", whole_images, "a block asks ahead for whole images of blocks to come"),
        Constraint(
            "shared memory",
            lambda p, layer, limits: Tile(p, layer).shared_bytes <= limits.shared_bytes,
            "the staged x and w do not fit shared memory",
        ),
    ),
    heuristics=(
        Heuristic("rows", lambda p, layer, limits: layer.H_out > p.ROWS, "this many rows are the whole image"),
        Heuristic(
            "use of bands", large_image, "bands of rows serve few images, or those that fill half of the shared memory"
        ),
        Heuristic(
            "shifts",
            lambda p, layer, limits: (
                (p.PIXELS_PER_ROW == 1) | (Tile(p, layer).steps == up(Tile(p, layer).word_c * layer.K, 8))
            ),
            "the shifted filter takes more steps than the filter",
        ),
        Heuristic(
            "shifts in lanes",
            lambda p, layer, limits: (p.PIXELS_PER_ROW == 1) | (p.EPILOGUE != "shuffle"),
            "lanes have neighbouring columns already",
        ),
        Heuristic(
            "shifts over",
            lambda p, layer, limits: 6 * Tile(p, layer).row_columns * p.PIXELS_PER_ROW <= 7 * layer.W_out,
            "more than a seventh of the shifted columns would hang over",
        ),
        Heuristic(
            "channels over",
            lambda p, layer, limits: (
                6 * Tile(p, layer).groups * Tile(p, layer).n_tiles <= 7 * up(layer.M * p.PIXELS_PER_ROW, 8)
            ),
            "more than a seventh of the channels computed would hang over",
        ),
        Heuristic(
            "rows over",
            few_rows_over,
            "more than a seventh of the rows computed would hang over",
        ),
        Heuristic(
            "columns over",
            few_columns_over,
            "more than a seventh of the columns computed would hang over",
        ),
        Heuristic(
            "one group",
            lambda p, layer, limits: (p.GRID_LAYOUT == "B,1,1") | (Tile(p, layer).groups > 1),
            "one group of channels is all of them",
        ),
        Heuristic(
            "use of groups",
            loops_over_groups,
            "blocks share out the output channels where they are few, or input channels come in parts",
        ),
        Heuristic("idle warps", few_idle, "more than a fifth of the block's warps would idle"),
        Heuristic(
            "thread registers",
            lambda p, layer, limits: Tile(p, layer).registers <= 255,
            "the warp's tile does not fit its registers",
        ),
        block_registers(registers),
        register_limit(registers, "the warp's tile is"),
        Heuristic("some channels", lambda p, layer, limits: layer.C > p.CHANNELS, "this many channels are all of them"),
        Heuristic("use of clusters", few_blocks, "input channels are shared out where blocks are few"),
        Heuristic(
            "use of kept groups",
            lambda p, layer, limits: (
                (p.WEIGHTS == "shared") | (Tile(p, layer).block_groups == 1) | (p.PIXELS_PER_ROW > 1)
            ),
            "registers keep several groups' weights where a row of the product is several pixels",
        ),
        Heuristic("use of odd warps", groups_by_warps, "5, 7 and 10 warps serve several groups' weights in registers"),
        Heuristic("use of prefetch", short_bursts, "x comes in bursts where y is much more, and images are many"),
        Heuristic(
            "next words",
            lambda p, layer, limits: (p.STAGES == 1) | (p.TILES_PER_BLOCK * Tile(p, layer).own_chunks > 1),
            "a second buffer serves what comes next",
        ),
        Heuristic(
            "few steps",
            lambda p, layer, limits: (p.UNROLL == 1) | (Tile(p, layer).steps > p.UNROLL),
            "fewer steps than are unrolled",
        ),
        Heuristic(
            "unrolled steps",
            short_unrolled,
            "the unrolled steps hold more than 256 products",
        ),
    ),
    launch=launch,
    sizes=Tile,
    figures=figures,
    magnitudes=magnitudes_of_operands,
    baselines=(  # so that a search knows of this template from the first; valid for one layer or another
        Baseline("tensor cores: 2x16x8 tile", {**START, "TILE_M": 8}, start=True),
        Baseline("tensor cores: 8 channels, in bulk", {**START, "TILE_M": 8, "EPILOGUE": "bulk"}, start=True),
        Baseline("tensor cores: 16 channels, in bulk", {**START, "TILE_M": 16, "EPILOGUE": "bulk"}, start=True),
        Baseline(
            "tensor cores: 4 channels, 2 shifts",
            {**START, "TILE_M": 4, "EPILOGUE": "vector", "PIXELS_PER_ROW": 2},
            start=True,
        ),
        Baseline(
            "tensor cores: 6 channels, 4 shifts",
            {**START, "TILE_M": 6, "EPILOGUE": "vector", "PIXELS_PER_ROW": 4},
            start=True,
        ),
        Baseline("tensor cores: weights in registers", KEPT, start=True),
        Baseline(
            "tensor cores: 6 channels, x in bursts",
            {
                **FEW,
                "TILE_ROWS": 1,
                "TILE_M": 6,
                "PIXELS_PER_ROW": 4,
                "EPILOGUE": "vector",
                "BLOCK_SHAPE": "256x1",
                **BURSTS,
            },
            start=True,
        ),
        *(
            Baseline(
                f"tensor cores: {channels} channels, {shifts} shifts, in bulk",
                {
                    **FEW,
                    "TILE_ROWS": rows,
                    "TILE_COLUMNS": columns,
                    "TILE_M": channels,
                    "PIXELS_PER_ROW": shifts,
                    "EPILOGUE": "bulk",
                },
                start=True,
            )
            for channels, shifts, rows, columns in ((4, 2, 6, 32), (6, 4, 2, 16), (12, 2, 6, 16))
        ),
        *(
            Baseline(
                f"tensor cores: {operands}, {channels} channels",
                {**PAIRS, "MMA_TYPE": operands, "TILE_M": channels, "TILE_ROWS": rows, "TILE_COLUMNS": columns},
                start=True,
            )
            for operands in ("fp16x3", "fp16")
            for channels, rows, columns in ((16, 2, 32), (24, 3, 16), (32, 4, 16))
        ),
        Baseline(
            "tensor cores: fp16x3, 24 channels, 19 sets in turn",
            {
                **PAIRS,
                "MMA_TYPE": "fp16x3",
                "TILE_M": 24,
                "TILE_ROWS": 3,
                "BLOCK_SHAPE": "384x1",
                "TILES_PER_BLOCK": 19,
            },
            start=True,
        ),
    ),
)
