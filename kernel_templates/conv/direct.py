"""direct: a thread sums one output element at a time, straight from global memory."""

from __future__ import annotations

from typing import Any

from tuner.kernels.arithmetic import pick, smaller, up
from tuner.kernels.sizes import ConvSizes, size
from tuner.kernels.template import Baseline, Constraint, Heuristic, KernelTemplate, Launch, Parameter, read_source
from tuner.problems.conv.layers import FLOAT_BYTES, ConvLayer

MAX_GRID_Y = 65_535
MAX_TERMS = 256


class Loops(ConvSizes):
    """The sizes that follow from one configuration (or columns of them)."""

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
    block = (p.BLOCK_X, p.BLOCK_Y, 1)
    if p.GRID_LAYOUT == "giant":
        rows = smaller(up(layer.B * layer.H_out, p.BLOCK_Y), MAX_GRID_Y)
        return Launch(grid=(up(layer.M * layer.W_out, p.BLOCK_X), rows, 1), block=block)
    return Launch(grid=(layer.B, layer.M if p.GRID_LAYOUT == "B,M,1" else 1, 1), block=block)


TEMPLATE = KernelTemplate(
    name="direct",
    idea="a thread sums one output element at a time, straight from global memory",
    source=read_source(__file__),
    parameters=(
        Parameter(
            name="BLOCK_SHAPE",
            choices=("32x32", "16x16", "8x8", "32x8", "1024x1", "512x1", "256x1", "128x1", "64x1", "32x1"),
            doc="threads of a block: along columns and rows of the output, or flat along its pixels",
        ),
        Parameter(
            name="GRID_LAYOUT",
            choices=("B,M,1", "B,1,1", "giant"),
            doc="a block per image and channel, per image (M loop in the thread), or tiles of one giant output image",
        ),
        Parameter(name="CONST_K", choices=(0, 1), doc="K is a compile-time constant"),
        Parameter(name="CONST_M", choices=(0, 1), doc="M is a compile-time constant"),
        Parameter(name="CONST_SIZES", choices=(0, 1), doc="C, H and W are compile-time constants"),
        Parameter(name="UNROLL", choices=("1", "2", "row", "filter"), doc="filter terms unrolled"),
        Parameter(
            name="ACCUMULATE",
            choices=("register", "global"),
            doc="where the sum is kept: in a register, or in y, written once a term",
        ),
        Parameter(name="WEIGHTS", choices=("global", "constant"), doc="memory that w is read from"),
    ),
    constraints=(
        Constraint(
            "threads",
            lambda p, layer, limits: limits.max_threads >= p.BLOCK_X * p.BLOCK_Y,
            "a block has more threads than the device allows",
        ),
        Constraint(
            "grid",
            lambda p, layer, limits: (p.GRID_LAYOUT != "B,M,1") | (layer.M <= MAX_GRID_Y),
            "a grid has at most 65,535 blocks along y",
        ),
        Constraint(
            "constant memory",
            lambda p, layer, limits: (
                (p.WEIGHTS == "global") | (FLOAT_BYTES * Loops(p, layer).weight_words <= limits.constant_bytes)
            ),
            "the weights do not fit constant memory",
        ),
    ),
    heuristics=(
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
            lambda p, layer, limits: (p.UNROLL != "filter") | (layer.K**2 <= MAX_TERMS),
            "the unrolled filter is longer than 256 terms",
        ),
    ),
    launch=launch,
    sizes=Loops,
    baselines=(
        Baseline("naive 32x32 (B,M,1)", {}),
        Baseline("giant image", {"GRID_LAYOUT": "giant"}),
        Baseline("2017 start: sum in y", {"ACCUMULATE": "global"}),
    ),
)
