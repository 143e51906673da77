"""Sizes are told to the kernel as Python computed them, or refused in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pocl_harness import CPU_LIMITS
from toy_store import TOY

from tuner.errors import Infeasible, UsageError
from tuner.kernels.render import render
from tuner.kernels.sizes import ConvSizes, size
from tuner.kernels.space import enumerate_template
from tuner.kernels.template import CUDA, OPENCL, Constraint, Heuristic, KernelTemplate
from tuner.problems.conv.layers import LAYERS

LAYER = LAYERS["sp18/conv2"]


class Toy(ConvSizes):
    @size
    def tile_words(self) -> Any:
        """of x, staged"""
        return self.p.TILE_WIDTH**2

    @size
    def flat(self) -> Any:
        return self.p.PADDING == 0

    @property
    def not_told(self) -> Any:
        return 7


def told(sizes: Any) -> KernelTemplate:
    return replace(TOY, sizes=sizes)


def text(template: KernelTemplate, dialect: str) -> str:
    return render(template, template.configuration({}), LAYER, dialect).source


def test_kernel_is_told_constants_in_cuda_and_macros_in_opencl() -> None:
    template = told(Toy)
    cuda, opencl = text(template, CUDA), text(template, OPENCL)
    assert "constexpr int TILE_WORDS = 64;  // of x, staged\nconstexpr bool FLAT = false;\n" in cuda
    assert "#define TILE_WORDS 64  // of x, staged\n#define FLAT 0\n" in opencl
    assert "constexpr int H_OUT = 26;  // rows of y\n" in cuda
    assert "NOT_TOLD" not in cuda + opencl


def test_users_function_of_sizes_is_told_too() -> None:
    assert "constexpr int STEPS = 4;\n" in text(told(lambda p, layer: {"STEPS": p.TILE_WIDTH // 2}), CUDA)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"steps": 1}, "size 'steps': the name must be upper case"),
        ({"GLOBAL": 1}, "size GLOBAL: GLOBAL is a word"),
        ({"TILE_WIDTH": 1}, "size TILE_WIDTH: a parameter is called so"),
        ({"STEPS": 1.5}, "size STEPS is 1.5; give a whole number"),
        ({"STEPS": 2**31}, "size STEPS is 2147483648; an int holds less"),
        (7, "sizes gives 7; return a dictionary"),
    ],
)
def test_size_that_no_kernel_could_read_is_one_line(sizes: Mapping[str, Any], why: str) -> None:
    with pytest.raises(Infeasible) as caught:
        text(told(lambda p, layer: sizes), CUDA)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_that_are_no_function_are_one_line() -> None:
    with pytest.raises(UsageError, match="sizes is not a function"):
        told({"STEPS": 6})


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two rules are called 'small'; rename one"):
        replace(
            TOY,
            constraints=(Constraint("small", lambda p, layer, limits: True, "why"),),
            heuristics=(Heuristic("small", lambda p, layer, limits: True, "why"),),
        )


def test_heuristic_leaves_out_what_is_valid_and_gives_it_back() -> None:
    taste = Heuristic("wide", lambda p, layer, limits: p.TILE_WIDTH >= 16, "narrow tiles are slow")
    template = replace(TOY, heuristics=(taste,))
    whole = enumerate_template(TOY, LAYER, CPU_LIMITS)
    kept = enumerate_template(template, LAYER, CPU_LIMITS)
    assert 0 < len(kept) < len(whole)
    assert kept.dropped["wide"] > 0
    assert (enumerate_template(template.without_heuristics(), LAYER, CPU_LIMITS).rows == whole.rows).all()
    assert template.violated(template.configuration({"TILE_WIDTH": 8}), LAYER, CPU_LIMITS) is taste
