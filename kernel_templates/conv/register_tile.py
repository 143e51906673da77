"""register_tile: a thread keeps a tile of pixels and channels in registers, so that each word read serves many sums."""

from __future__ import annotations

from typing import Any

from tuner.kernels.arithmetic import larger, pick, smaller, up
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
MIN_SUMS = 4
MAX_TERMS = 4096
THREAD_REGISTERS = {CUDA: 255}
VECTOR_UNIT_REGISTERS = 640  # 32 registers of 16 words, and some that stay in a cache


class Tile(ConvSizes):
    """The sizes that follow from one configuration (or columns of them)."""

    def widest(self, a: Any, b: Any) -> Any:
        """Return the words of the widest copies between rows of a and of b words."""
        four = (self.p.VECTOR >= 4) & (a % 4 == 0) & (b % 4 == 0)
        two = (self.p.VECTOR >= 2) & (a % 2 == 0) & (b % 2 == 0)
        return 1 + two * 1 + four * 2

    @size
    def threads(self) -> Any:
        """of a block"""
        return self.p.BLOCK_X

    @size
    def block_rows(self) -> Any:
        """output rows of a block"""
        return pick(self.p.ROWS == 0, self.layer.H_out, self.p.ROWS)

    @size
    def in_rows(self) -> Any:
        """input rows of a block"""
        return self.block_rows + self.layer.K - 1

    @size
    def strips(self) -> Any:
        """tiles side by side"""
        return up(self.layer.W_out, self.p.TILE_W)

    @property
    def row_tiles(self) -> Any:
        return up(self.block_rows, self.p.TILE_H)

    @property
    def bands(self) -> Any:
        return up(self.layer.H_out, self.block_rows)

    @property
    def groups(self) -> Any:
        return up(self.layer.M, self.p.TILE_M)

    @size
    def loop_m(self) -> Any:
        """a block computes all groups of channels"""
        return self.p.GRID_LAYOUT == "B,1,1"

    @size
    def block_groups(self) -> Any:
        """groups of TILE_M channels of a block"""
        return pick(self.loop_m, self.groups, 1)

    @size
    def image_tasks(self) -> Any:
        """tiles of an image, for one group of channels"""
        return self.strips * self.row_tiles

    @size
    def group_tasks(self) -> Any:
        """the same of all images of a block"""
        return self.p.IMAGES * self.image_tasks

    @size
    def tasks(self) -> Any:
        """of a block"""
        return self.block_groups * self.group_tasks

    @size
    def rounds(self) -> Any:
        """tasks of a thread, one after the other"""
        return up(self.tasks, self.threads)

    @size
    def sums(self) -> Any:
        """of a thread"""
        return self.p.TILE_H * self.p.TILE_W * self.p.TILE_M

    @size
    def slide_h(self) -> Any:
        """words of x slide along H, else along W"""
        return self.p.TILE_H > self.p.TILE_W

    @property
    def registers(self) -> Any:
        slide = self.layer.K - 1
        read = (self.p.TILE_H + self.slide_h * slide) * (self.p.TILE_W + (1 - 1 * self.slide_h) * slide)
        return self.sums + read + smaller(self.p.TILE_M, 8) + 20

    @size
    def staged_c(self) -> Any:
        """input channels staged at once"""
        return pick(self.p.CHANNELS == 0, self.layer.C, self.p.CHANNELS)

    @size
    def chunks(self) -> Any:
        """parts that the input channels come in"""
        return self.layer.C // self.staged_c

    @size
    def async_copies(self) -> Any:
        """copies to shared memory pass no register"""
        return self.p.COPY_BY == "cp_async"

    @size
    def stages(self) -> Any:
        """sets of staged words"""
        return 1 + self.async_copies * (self.chunks > 1)

    @size
    def pitch(self) -> Any:
        """words from row to row of x in shared memory"""
        odd = (self.p.ROW_PITCH == "odd") * (1 - self.layer.W % 2)
        return self.layer.W + odd + (self.p.ROW_PITCH == "padded") * (4 - self.layer.W % 4)

    @size
    def plane(self) -> Any:
        """words of a staged channel of an image"""
        return self.in_rows * self.pitch

    @property
    def whole(self) -> Any:
        """Whether an image's staged channels are one run of words; else a run is a row."""
        return (self.p.ROWS == 0) & (self.pitch == self.layer.W)

    @size
    def run(self) -> Any:
        """words that lie together in x and in shared memory"""
        return pick(self.whole, self.staged_c * self.layer.H * self.layer.W, self.layer.W)

    @size
    def runs(self) -> Any:
        """of an image"""
        return pick(self.whole, 1, self.staged_c * self.in_rows)

    @size
    def x_words(self) -> Any:
        """of x in a set of staged words"""
        return up(self.p.IMAGES * self.staged_c * self.plane, 4) * 4

    @size
    def overhang(self) -> Any:
        """words read past x for what hangs over the output"""
        rows = (self.row_tiles * self.p.TILE_H - self.block_rows) * self.pitch
        return up(rows + larger(self.strips * self.p.TILE_W + self.layer.K + 2 - self.pitch, 0), 4) * 4

    @size
    def m_words(self) -> Any:
        """words of a group's channels in shared memory"""
        return pick(self.p.TILE_M < 3, self.p.TILE_M, up(self.p.TILE_M, 4) * 4)

    @size
    def m_width(self) -> Any:
        """words of w read at once"""
        return pick(self.p.TILE_M < 3, self.p.TILE_M, 4)

    @size
    def w_pitch(self) -> Any:
        """words from term to term of w; spreads the transposed writes over the banks"""
        row = self.block_groups * self.m_words
        return row + (row % 8 == 0) * 4

    @size
    def w_words(self) -> Any:
        """of w in a set of staged words"""
        return (self.p.WEIGHTS == "shared") * up(self.staged_c * self.layer.K**2 * self.w_pitch, 4) * 4

    @size
    def shared_words(self) -> Any:
        """all staged words"""
        return self.stages * (self.x_words + self.w_words) + self.overhang

    @property
    def shared_bytes(self) -> Any:
        return FLOAT_BYTES * self.shared_words

    @size
    def weight_words(self) -> Any:
        """all of w"""
        return self.layer.M * self.layer.reduction

    @size
    def load_width(self) -> Any:
        """words of x copied to shared memory at once"""
        in_runs, in_rows = self.widest(self.run, self.run), self.widest(self.layer.W, self.pitch)
        return pick(self.whole, in_runs, in_rows)

    @size
    def x_width(self) -> Any:
        """words of x read from shared memory at once"""
        return pick(self.slide_h | (self.p.X_READS == "each"), 1, self.widest(self.p.TILE_W, self.pitch))

    @size
    def y_width(self) -> Any:
        """words of y written at once"""
        return self.widest(self.p.TILE_W, self.layer.W_out)

    @size
    def read_h(self) -> Any:
        """rows of x that a thread holds at once"""
        return self.p.TILE_H + self.slide_h * (self.layer.K - 1)

    @size
    def read_w(self) -> Any:
        """columns of x that a thread holds at once"""
        row = up(self.p.TILE_W + self.layer.K - 1, self.x_width) * self.x_width
        return pick(self.slide_h, self.p.TILE_W, row)

    @property
    def widest_copy(self) -> Any:
        """The widest of the copies that VECTOR allows: loads of x, reads of x, writes of y."""
        return larger(larger(self.load_width, self.x_width), self.y_width)

    @property
    def waste(self) -> Any:
        """Sums computed for each that the layer needs, times turns of a thread for each that has a task."""
        rows = self.bands * self.row_tiles * self.p.TILE_H / self.layer.H_out
        columns = self.strips * self.p.TILE_W / self.layer.W_out
        over = rows * columns * (self.groups * self.p.TILE_M / self.layer.M)
        return over * self.rounds * self.p.BLOCK_X / self.tasks


def launch(p: Any, layer: ConvLayer) -> Launch:
    tile = Tile(p, layer)
    return Launch(
        grid=(up(layer.B, p.IMAGES), up(tile.groups, tile.block_groups), tile.bands),
        block=(p.BLOCK_X, 1, 1),
        shared_bytes=tile.shared_bytes,
    )


def figures(p: Any, layer: ConvLayer) -> dict[str, Any]:
    tile = Tile(p, layer)
    return {"shared bytes": tile.shared_bytes, "rounds": tile.rounds, "waste": tile.waste}


def fits_thread(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    return Tile(p, layer).registers <= THREAD_REGISTERS.get(limits.dialect, VECTOR_UNIT_REGISTERS)


def in_output(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    rows = Tile(p, layer).block_rows
    return (layer.W_out >= p.TILE_W) & (rows >= p.TILE_H) & (layer.M >= p.TILE_M)


def large_image(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    image = FLOAT_BYTES * Tile(p, layer).staged_c * layer.H * layer.W
    return (p.ROWS == 0) | (2 * image > limits.shared_bytes)


def few_rows_over(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return 6 * tile.row_tiles * p.TILE_H * tile.bands <= 7 * layer.H_out


def few_idle(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    tile = Tile(p, layer)
    return (limits.warp == p.BLOCK_X) | (7 * tile.rounds * p.BLOCK_X <= 8 * tile.tasks)


def short_unrolled(p: Any, layer: ConvLayer, limits: DeviceLimits) -> Any:
    terms = layer.K + (p.UNROLL == "filter") * (layer.K**2 - layer.K)
    return terms * Tile(p, layer).sums <= MAX_TERMS


FLAT_BLOCKS = (256, 64, 128, 160, 192, 384, 512, 1024, 32, 16, 1)


def registers(p: Any, layer: ConvLayer) -> Any:
    return Tile(p, layer).registers


TEMPLATE = KernelTemplate(
    name="register_tile",
    idea="a thread keeps a tile of pixels and channels in registers, so that each word read serves many sums",
    source=read_source(__file__),
    parameters=(
        Parameter(
            name="TILE_W",
            choices=(1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 16),
            doc="output columns of a thread",
        ),
        Parameter(name="TILE_M", choices=(1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 25), doc="output channels of a thread"),
        Parameter(name="ROWS", choices=(0, 8, 32), doc="output rows of a block; 0: the whole image"),
        Parameter(name="TILE_H", choices=(1, 2, 4, 6, 9, 13), doc="output rows of a thread"),
        Parameter(name="UNROLL", choices=("row", "filter"), doc="filter terms unrolled: a row, or the whole filter"),
        Parameter(
            name="GRID_LAYOUT",
            choices=("B,1,1", "B,M,1"),
            doc="a block computes all output channels, or the blocks along y share them out",
        ),
        Parameter(name="IMAGES", choices=(1, 2, 3, 4, 8), doc="images of a block"),
        Parameter(
            name="BLOCK_SHAPE", choices=tuple(f"{threads}x1" for threads in FLAT_BLOCKS), doc="threads of a block"
        ),
        Parameter(name="MIN_BLOCKS", choices=(1, 2), doc="blocks resident at once; limits a thread's registers"),
        Parameter(
            name="X_READS",
            choices=("slide", "each"),
            doc="words of x: slid through registers, or read for each term in the vectors of a CPU",
        ),
        Parameter(name="WEIGHTS", choices=("shared", "constant", "global"), doc="memory that w is read from"),
        Parameter(name="CHANNELS", choices=(0, 1, 4), doc="input channels staged at once; 0: all"),
        Parameter(
            name="COPY_BY",
            choices=("register", "cp_async"),
            doc="copies to shared memory: through registers, or asynchronous (by CHANNELS: the next during these)",
        ),
        Parameter(
            name="ROW_PITCH",
            choices=("packed", "padded", "odd"),
            doc="words from row to row of x in shared memory: W, the next multiple of 4, or odd",
        ),
        Parameter(name="VECTOR", choices=(1, 2, 4), doc="widest copy in words, where alignment allows"),
    ),
    constraints=(
        Constraint(
            "threads",
            lambda p, layer, limits: limits.max_threads >= p.BLOCK_X,
            "a block has more threads than the device allows",
        ),
        Constraint("tile", in_output, "the thread's tile is larger than the output"),
        Constraint(
            "one image",
            lambda p, layer, limits: (p.ROWS == 0) | (p.IMAGES == 1),
            "a block owns bands of one image, or whole images",
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
            "kept sums",
            lambda p, layer, limits: (p.CHANNELS == 0) | (Tile(p, layer).rounds == 1),
            "sums kept from channel to channel allow one task a thread",
        ),
        Constraint(
            "asynchronous",
            lambda p, layer, limits: (p.COPY_BY == "register") | (limits.dialect == CUDA),
            "this device copies to shared memory through registers alone",
        ),
        Constraint(
            "vector reads",
            lambda p, layer, limits: (p.X_READS == "slide") | (limits.warp == 1),
            "this device's threads have no vectors to read x in",
        ),
        Constraint(
            "vectors of x",
            lambda p, layer, limits: (p.X_READS == "slide") | ((p.TILE_W >= p.TILE_H) & (p.TILE_W >= 4)),
            "a vector of x lies along W and has at least 4 words",
        ),
        Constraint(
            "constant memory",
            lambda p, layer, limits: (
                (p.WEIGHTS != "constant") | (FLOAT_BYTES * Tile(p, layer).weight_words <= limits.constant_bytes)
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
        Heuristic("warp", lambda p, layer, limits: limits.warp <= p.BLOCK_X, "a block does not fill one warp"),
        Heuristic("rows", lambda p, layer, limits: layer.H_out > p.ROWS, "this many rows are the whole image"),
        Heuristic("bands", large_image, "bands of rows serve images that fill half of the shared memory"),
        Heuristic(
            "columns over",
            lambda p, layer, limits: 6 * Tile(p, layer).strips * p.TILE_W <= 7 * layer.W_out,
            "more than a seventh of the columns computed would hang over",
        ),
        Heuristic("rows over", few_rows_over, "more than a seventh of the rows computed would hang over"),
        Heuristic(
            "channels over",
            lambda p, layer, limits: 6 * Tile(p, layer).groups * p.TILE_M <= 7 * layer.M,
            "more than a seventh of the channels computed would hang over",
        ),
        Heuristic(
            "one group",
            lambda p, layer, limits: (p.GRID_LAYOUT == "B,1,1") | (Tile(p, layer).groups > 1),
            "one group of channels is all of them",
        ),
        Heuristic("idle threads", few_idle, "more than an eighth of the block's threads would idle"),
        Heuristic(
            "narrow tile",
            lambda p, layer, limits: (p.TILE_W <= 2) | (p.TILE_H <= 2),
            "a tile longer than 2 pixels both ways holds more words than it reuses",
        ),
        Heuristic(
            "some sums",
            lambda p, layer, limits: Tile(p, layer).sums >= MIN_SUMS,
            "with fewer than 4 sums a thread this is the shared_tile template",
        ),
        Heuristic("thread registers", fits_thread, "the thread's tile does not fit its registers"),
        block_registers(registers),
        Heuristic(
            "some channels",
            lambda p, layer, limits: layer.C > p.CHANNELS,
            "this many channels are all of them",
        ),
        Heuristic(
            "parts in advance",
            lambda p, layer, limits: (p.CHANNELS == 0) | (p.COPY_BY == "cp_async") | (limits.dialect != CUDA),
            "parts of the channels gain by arriving while others are multiplied",
        ),
        Heuristic(
            "resident blocks",
            lambda p, layer, limits: (p.MIN_BLOCKS == 1) | (limits.dialect == CUDA),
            "this device has no limit of registers to set",
        ),
        register_limit(registers, "the thread's tile is"),
        Heuristic(
            "direct weights",
            lambda p, layer, limits: (p.WEIGHTS != "global") | (limits.warp == 1),
            "a warp reads w faster from shared or constant memory",
        ),
        Heuristic(
            "banks",
            lambda p, layer, limits: (p.ROW_PITCH == "packed") | (limits.warp > 1),
            "this device's shared memory has no banks",
        ),
        Heuristic(
            "odd pitch",
            lambda p, layer, limits: (p.ROW_PITCH != "odd") | (layer.W % 2 == 0),
            "rows of x are odd already",
        ),
        Heuristic(
            "padded reads",
            lambda p, layer, limits: (p.ROW_PITCH != "padded") | (Tile(p, layer).x_width == 4),
            "padded rows serve reads of 4 words",
        ),
        Heuristic(
            "vector",
            lambda p, layer, limits: Tile(p, layer).widest_copy == p.VECTOR,
            "no copy is aligned to this many words",
        ),
        Heuristic(
            "unroll a 1x1 filter",
            lambda p, layer, limits: (p.UNROLL == "row") | (layer.K > 1),
            "a 1x1 filter has nothing to unroll",
        ),
        Heuristic("unrolled loops", short_unrolled, "the unrolled loops are longer than 4096 terms"),
    ),
    launch=launch,
    sizes=Tile,
    figures=figures,
    baselines=(
        Baseline("2017 step 5: outputs in an array", {"BLOCK_SHAPE": "1024x1", "TILE_M": 4}),
        Baseline(
            "CPU start: vectors, 4x4 tile",  # where a search on a CPU had better begin; not valid on a GPU
            {"TILE_W": 4, "TILE_M": 4, "BLOCK_SHAPE": "1x1", "X_READS": "each", "VECTOR": 4},
            start=True,
        ),
    ),
)
