"""The check itself: it reports small errors, names wrong elements, and sees what is written outside y."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.bench.bench import Bench
from tuner.bench.guards import ALIKE, LIKELY, MIXED
from tuner.bench.input_sets import RandomInputs, own_inputs
from tuner.bench.protocol import BenchSpec
from tuner.devices import open_device
from tuner.errors import WrongResult
from tuner.problems.accuracy import compare
from tuner.problems.conv.layers import find_layer
from tuner.problems.conv.networks import layer_input, layer_weights
from tuner.problems.conv.reference import reference_conv

LAYER = find_layer("sp19/conv2", batch=7)


@pytest.fixture(scope="module")
def bench():
    device = open_device("cpu")
    yield Bench(device, LAYER)
    device.close()


@pytest.fixture(scope="module")
def inputs(bench):
    return own_inputs(bench, BenchSpec(device="cpu", problem=LAYER))


@pytest.fixture
def right(bench, inputs):
    """A right y on the bench, as a host array to be spoilt."""
    inputs.place()
    bench.reference(LAYER, {})
    return bench.device.download(bench.y, np.float32, LAYER.y_size)


def test_real_inputs_on_the_device_are_those_of_the_network(bench, inputs):
    x = bench.device.download(inputs.stock["x"], np.float32, int(np.prod(LAYER.x_shape))).reshape(LAYER.x_shape)
    from tuner.problems.conv.dataset import load_test_split

    assert np.abs(x - layer_input(LAYER, load_test_split())).max() < 1e-5


def test_reference_on_the_device_agrees_with_float64(inputs, right):
    from tuner.problems.conv.dataset import load_test_split

    expected = reference_conv(layer_input(LAYER, load_test_split()), layer_weights(LAYER))
    assert compare(right.reshape(LAYER.y_shape), expected, 2 * inputs.tolerance).ok


def test_small_error_is_passed_and_reported(bench, inputs, right):
    right[1234] += 0.6 * inputs.tolerance
    bench.device.upload(bench.y, right)
    assert 0.3 * inputs.tolerance < inputs.verify() < inputs.tolerance


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_one_bad_element_is_named(bench, inputs, right, value):
    b, m, h, w = 6, 15, 17, 16
    right[np.ravel_multi_index((b, m, h, w), LAYER.y_shape)] = value
    bench.device.upload(bench.y, right)
    with pytest.raises(WrongResult, match=r"1 of 36,288 elements .* \(b, m, h, w\) = \(6, 15, 17, 16\)"):
        inputs.verify()


def test_wrong_element_is_told_with_what_it_should_be_and_by_how_much(bench, inputs, right):
    element = (3, 2, 1, 0)
    wanted = right[np.ravel_multi_index(element, LAYER.y_shape)]
    right[np.ravel_multi_index(element, LAYER.y_shape)] = wanted + 2
    bench.device.upload(bench.y, right)
    with pytest.raises(WrongResult, match=r"\(b, m, h, w\) = \(3, 2, 1, 0\)") as caught:
        inputs.verify()
    assert f"got {wanted + 2:.7g}, wanted {wanted:.7g}, difference 2; tolerance" in str(caught.value)


@pytest.mark.parametrize("element", [0, 1, 8, 9, LAYER.y_size // 2, LAYER.y_size - 2, LAYER.y_size - 1])
def test_no_element_is_left_out_at_the_ends_of_a_run(bench, inputs, right, element):
    right[element] += 1
    bench.device.upload(bench.y, right)
    with pytest.raises(WrongResult, match="1 of 36,288 elements"):
        inputs.verify()


def test_ragged_batch_that_writes_one_image_too_many_is_seen(bench, inputs, right):
    inputs.place(rows=6)
    bench.device.upload(bench.y, right)
    with pytest.raises(WrongResult, match=r"after y overwritten, the nearest 1 behind its end"):
        inputs.verify()


def test_word_written_before_y_is_seen(bench, inputs, right):
    bench.device.upload(
        bench.device.view(bench.output.whole, 4 * bench.output.begin - 4096, 4096), np.zeros(1024, np.float32)
    )
    with pytest.raises(WrongResult, match=r"1024 word.s. before y overwritten, the nearest 1 before it"):
        inputs.verify()


def test_second_inputs_have_magnitudes_zeros_and_other_numbers_each_time(bench):
    spec = BenchSpec(device="cpu", problem=LAYER)
    first, second = (
        bench.device.download(RandomInputs(bench, spec).stock["x"], np.float32, int(np.prod(LAYER.x_shape)))
        for _ in range(2)
    )
    assert (first != second).mean() > 0.9
    assert 0.04 < (first == 0).mean() < 0.09
    assert np.signbit(first[first == 0]).any()
    assert not np.signbit(first[first == 0]).all()
    assert 2**-4 <= np.abs(first[first != 0]).min() < 2**-3
    assert 0.9 < np.abs(first).max() < 1


@pytest.mark.parametrize("batch", [None, 5, 1])
def test_turned_inputs_have_turned_outputs(bench, inputs, batch):
    for _ in range(5):
        inputs.place(inputs.drawn((2.0**-10, 2.0**10)), batch)
        bench.reference(inputs.placed, {})
        assert inputs.verify() <= 1.01 * inputs.unit


def test_poison_is_wrong_everywhere_and_of_every_kind(bench, inputs, right):
    inputs.place()
    while inputs.fill.kind != MIXED:
        inputs.poison()
    words, bits = (bench.device.download(bench.y, kind, LAYER.y_size) for kind in (np.float32, np.uint32))
    missing = np.isnan(words)
    quiet = bits[missing] & 0x00400000 != 0
    words = np.where(missing, np.float32(np.inf), words)
    wrong = ~(np.abs(words - right) <= inputs.tolerance)
    assert wrong.all()
    assert missing.mean() > 0.2
    assert 0.2 < quiet.mean() < 0.8
    assert (words[~missing] > 1e28).mean() > 0.1
    assert (words < -1e28).mean() > 0.1
    near = np.abs(words - right) < 40 * inputs.tolerance
    assert 0.02 < near.mean() < 0.2
    assert ((words == -right) & (right != 0)).mean() > 0.005
    assert ((words == 0) & (right != 0)).mean() > 0.005


def test_output_is_wrong_everywhere_when_it_looks_like_a_result_or_was_cleared(bench, inputs, right):
    inputs.place()
    for kind in (LIKELY, ALIKE):
        while inputs.fill.kind != kind:
            inputs.poison()
        words = bench.device.download(bench.y, np.float32, LAYER.y_size)
        assert not (np.abs(words - right) <= inputs.tolerance).any()
        if kind == LIKELY:
            assert (np.abs(words - right) < 40 * inputs.tolerance).mean() > 0.4
        else:
            alike = np.uint32(inputs.fill.word).view(np.float32)
            far = ~(np.abs(right - alike) <= 3 * inputs.tolerance)
            assert (words.view(np.uint32)[far] == inputs.fill.word).all()
        with pytest.raises(WrongResult, match=f"{LAYER.y_size:,} of {LAYER.y_size:,} elements are wrong"):
            inputs.verify()


def test_poison_differs_from_launch_to_launch(bench, inputs):
    inputs.place()
    first = bench.device.download(bench.y, np.uint32, LAYER.y_size)
    inputs.poison()
    assert (first != bench.device.download(bench.y, np.uint32, LAYER.y_size)).mean() > 0.9


@pytest.mark.parametrize("which", ["x", "w"])
@pytest.mark.parametrize("word", [0, 17, -1])
def test_changed_input_is_seen(bench, inputs, right, which, word):
    inputs.place()
    guarded = bench.guarded[which]
    words = bench.device.download(guarded.whole, np.uint32, guarded.words)
    at = guarded.begin + (word if word >= 0 else LAYER.tensor(which).size - 1)
    words[at] ^= 1
    bench.device.upload(guarded.whole, words)
    bench.device.upload(bench.y, right)
    with pytest.raises(WrongResult, match="wrote to its inputs"):
        inputs.verify()


@pytest.mark.parametrize("which", ["x", "w"])
@pytest.mark.parametrize("word", [0, -1])
def test_word_written_around_an_input_is_seen(bench, inputs, right, which, word):
    inputs.place()
    guarded = bench.guarded[which]
    words = bench.device.download(guarded.whole, np.uint32, guarded.words)
    kept = words.copy()
    words[word] = 0
    bench.device.upload(guarded.whole, words)
    bench.device.upload(bench.y, right)
    with pytest.raises(WrongResult, match="around the inputs"):
        inputs.verify()
    bench.device.upload(guarded.whole, kept)


def test_swapped_words_of_the_stock_are_seen(bench):
    inputs = RandomInputs(bench, BenchSpec(device="cpu", problem=LAYER))
    inputs.audit()
    w = bench.device.download(inputs.stock["w"], np.float32, LAYER.M * LAYER.reduction)
    w[[0, 1]] = w[[1, 0]]
    bench.device.upload(inputs.stock["w"], w)
    with pytest.raises(WrongResult, match="keeps its inputs"):
        inputs.audit()


def test_expected_output_lies_masked(bench, inputs, right):
    masked = bench.device.download(inputs._expected, np.float32, LAYER.y_size)
    assert (masked == right).mean() < 0.01
    plain = bench.device.download(inputs.revealed(), np.float32, LAYER.y_size)
    assert np.abs(plain - right).max() <= inputs.unit
