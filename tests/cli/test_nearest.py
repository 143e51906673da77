"""An unknown name is answered with one that is near, and with what there is where none is."""

from __future__ import annotations

import pytest

from tuner.problems.conv.layers import LAYERS
from tuner.suggestions import alternatives, listed


@pytest.mark.parametrize(
    ("unknown", "near"), [("fa20/conv3", "fa20/conv2"), ("sp18conv1", "sp18/conv1"), ("fa19/con2", "fa19/conv2")]
)
def test_near_name_is_suggested_alone(unknown: str, near: str) -> None:
    assert alternatives(unknown, list(LAYERS)) == f"did you mean '{near}'?"


@pytest.mark.parametrize("unknown", ["", "lenet", "C2H12W11M3K3", "fc2", "convolution of mine"])
def test_far_name_is_answered_with_what_there_is(unknown: str) -> None:
    assert alternatives(unknown, list(LAYERS), ["conv1", "conv2"]) == f"there are: {listed(list(LAYERS))}"


@pytest.mark.parametrize(
    ("count", "text"), [(1, "n0"), (7, "n0, n1, n2, n3, n4, n5, n6"), (8, "n0, n1, n2, n3, n4, n5 and 2 more")]
)
def test_list_is_shortened_when_long(count: int, text: str) -> None:
    assert listed([f"n{number}" for number in range(count)]) == text


def test_name_with_spaces_is_quoted() -> None:
    assert listed(["a b", "c"]) == "'a b', c"
