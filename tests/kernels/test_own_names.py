"""Names and words that a kernel could not tell apart are refused, with the clash named."""

from __future__ import annotations

import dataclasses

import pytest
from toy_store import TOY

from tuner.errors import UsageError
from tuner.kernels.render import parameter_defines
from tuner.kernels.template import Parameter


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("B", "an argument of every kernel is called so; call it TILE_B"),
        ("K", "an argument of every kernel is called so"),
        ("GLOBAL", "GLOBAL is a word that kernels are written with"),
        ("SHARED_MEMORY", "MY_SHARED_MEMORY"),
        ("LAYER_C", "names that begin with LAYER_ are the layer's sizes"),
        ("LAUNCH_X", "names that begin with LAUNCH_"),
        ("CLK_LOCAL_MEM_FENCE", "words of OpenCL"),
        ("NULL", "NULL is a word of C"),
        ("INT_MAX", "INT_MAX is a word of C"),
        ("TEMPLATE", "a word of every exported header"),
        ("int", "the name must be upper case"),
        ("__global__", "the name must be upper case"),
        ("TILE-W", "the name must be upper case"),
        ("2D", "the name must be upper case"),
        ("GRÖSSE", "the name must be upper case"),
        (5, "the name must be upper case"),
    ],
)
def test_name_that_is_taken_is_refused(name, says):
    with pytest.raises(UsageError) as caught:
        Parameter(name=name, choices=(1, 2), doc="")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        (("slow", "Slow"), "choices 'slow' and 'Slow' are both MODE_SLOW in a kernel; rename one"),
        (("B,1,1", "B 1 1"), "are both MODE_B_1_1"),
        ((",", ";"), "are both MODE__"),
        ((0, "row"), "0 is a number and 'row' a word, which a kernel cannot tell apart; give words alone ('0')"),
        ((1, 2, 2**31), "2147483648 is no int of a kernel"),
        (("", "a"), "choice '' cannot be written"),
        (("a\nb", "c"), "cannot be written"),
        (tuple(range(255)), "255 choices; at most 254"),
        ((1.5, 2), "choice 1.5 is neither a whole number nor a word"),
        (([1], 2), "choice [1] is neither"),
        ((True, 2), "choice True is neither"),
        ("abc", "choices are 'abc'; give a tuple"),
        ((1, 1), "given twice"),
    ],
)
def test_choices_that_a_kernel_could_not_tell_apart_are_refused(choices, says):
    with pytest.raises(UsageError) as caught:
        Parameter(name="MODE", choices=choices, doc="")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"BLOCK_SHAPE": ("8x8",), "BLOCK_X": (1,)}, "BLOCK_X is both a part of BLOCK_SHAPE and the parameter BLOCK_X"),
        ({"BLOCK_SHAPE": ("8x8",), "BLOCK": ("x",)}, "BLOCK_X is both a part of BLOCK_SHAPE and BLOCK's 'x'"),
        ({"MODE": ("slow",), "MODE_SLOW": (1,)}, "MODE_SLOW is both MODE's 'slow' and the parameter MODE_SLOW"),
        ({"A": ("b,c",), "A_B": ("c",)}, "A_B_C is both A's 'b,c' and A_B's 'c'"),
        ({"A_SHAPE": ("1x2",), "A": ("1x2",)}, "A_X is both a part of A_SHAPE and a part of A"),
    ],
)
def test_parameters_that_define_one_word_are_refused(parameters, says):
    declared = tuple(Parameter(name=name, choices=choices, doc="") for name, choices in parameters.items())
    with pytest.raises(UsageError) as caught:
        dataclasses.replace(TOY, parameters=declared)
    assert f"template toy: {says}; rename one" in str(caught.value)


def test_words_and_shapes_reach_the_kernel_apart():
    declared = (
        Parameter(name="MODE", choices=("slow", "fast"), doc=""),
        Parameter(name="BLOCK_SHAPE", choices=["8x4", "4x8"], doc=""),  # type: ignore[arg-type]  # a list is taken too
    )
    template = dataclasses.replace(TOY, parameters=declared)
    assert parameter_defines(template, template.configuration({"MODE": "fast"})).splitlines() == [
        "#define MODE_SLOW 1",
        "#define MODE_FAST 2",
        "#define MODE MODE_FAST",
        "#define BLOCK_X 8",
        "#define BLOCK_Y 4",
    ]
