"""The check itself: it reports small errors, names wrong elements, and sees what is written outside y."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.bench import GUARD_BYTES, POISON, Bench
from tuner.devices import open_device
from tuner.errors import WrongResult
from tuner.inputs import network_inputs, random_inputs
from tuner.layers import find_layer
from tuner.networks import layer_input, layer_weights
from tuner.protocol import BenchSpec
from tuner.reference import compare, reference_conv

LAYER = find_layer("sp19/conv2", batch=7)


@pytest.fixture(scope="module")
def bench():
    device = open_device("cpu")
    yield Bench(device, LAYER)
    device.close()


@pytest.fixture(scope="module")
def inputs(bench):
    return network_inputs(bench, BenchSpec(device="cpu", layer=LAYER))


@pytest.fixture
def right(bench, inputs):
    """A right y on the bench, as a host array to be spoilt."""
    bench.poison()
    bench.convolve(inputs.x, inputs.w, bench.y, LAYER)
    return bench.device.download(bench.y, np.float32, LAYER.y_size)


def test_real_inputs_on_the_device_are_those_of_the_network(bench, inputs):
    x = bench.device.download(inputs.x, np.float32, int(np.prod(LAYER.x_shape))).reshape(LAYER.x_shape)
    from tuner.dataset import load_test_split

    assert np.abs(x - layer_input(LAYER, load_test_split())).max() < 1e-5


def test_reference_on_the_device_agrees_with_float64(inputs, right):
    from tuner.dataset import load_test_split

    expected = reference_conv(layer_input(LAYER, load_test_split()), layer_weights(LAYER))
    assert compare(right.reshape(LAYER.y_shape), expected, 2 * inputs.tolerance).ok


def test_small_error_is_passed_and_reported(bench, inputs, right):
    right[1234] += 0.5 * inputs.tolerance
    bench.device.upload(bench.y, right)
    assert 0.2 * inputs.tolerance < inputs.verify() < inputs.tolerance


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
    bench.poison()
    guarded = bench.device.download(bench._guarded, np.uint32, bench._words)
    assert (guarded == POISON).all()


def test_ragged_batch_that_writes_one_image_too_many_is_seen(bench, inputs, right):
    with pytest.raises(WrongResult, match=r"after y overwritten, the nearest 1 behind its end"):
        inputs.verify(batch=6)


def test_word_written_before_y_is_seen(bench, inputs, right):
    bench.device.upload(bench.device.view(bench._guarded, GUARD_BYTES - 4096, 4096), np.zeros(1024, np.float32))
    with pytest.raises(WrongResult, match=r"1024 word.s. before y overwritten, the nearest 1 before it"):
        inputs.verify()


def test_second_inputs_differ_from_the_first_and_are_uniform(bench):
    second = random_inputs(bench, BenchSpec(device="cpu", layer=LAYER))
    x = bench.device.download(second.x, np.float32, second.layer.B * LAYER.C * LAYER.H * LAYER.W)
    assert second.layer.B == 3
    assert abs(x.mean()) < 0.03
    assert -1 <= x.min() < -0.99 < 0.99 < x.max() < 1
