"""The networks: weights fit, accuracy is the course's or better, and layers are fed what the network feeds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tuner.errors import UsageError
from tuner.problems.accuracy import F32
from tuner.problems.conv.architectures import ARCHITECTURES
from tuner.problems.conv.dataset import Dataset, load_test_split, resize_bilinear
from tuner.problems.conv.layers import LAYERS, ConvLayer, find_layer
from tuner.problems.conv.networks import (
    CHUNK,
    COUNTS,
    WEIGHTS,
    accuracy,
    classify,
    forward,
    layer_input,
    layer_weights,
    load_network,
    read_network,
)
from tuner.problems.conv.reference import float32_conv, reference_conv

SMALL = Dataset(
    images=np.random.default_rng(0).integers(0, 256, (5, 28, 28)).astype(np.uint8),
    labels=np.arange(5, dtype=np.uint8),
    digest="",
)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load_test_split()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_stored_accuracy_is_the_courses_or_better(name: str) -> None:
    network = load_network(name)
    assert len(network.correct) == len(COUNTS)
    assert network.correct[-1] / COUNTS[-1] >= network.architecture.course_accuracy


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_accuracy_is_the_stored_one_on_1000_images(name: str, data: Dataset) -> None:
    network = load_network(name)
    rows = accuracy(network, data, COUNTS[:3])
    assert [row.images for row in rows] == [10, 100, 1_000]
    # one image may sit on the border of two classes, where another BLAS decides otherwise
    assert [row.correct for row in rows] == pytest.approx(network.correct[:3], abs=1)


def test_accuracy_is_the_stored_one_on_all_images(data: Dataset) -> None:
    network = load_network("fa17")
    assert accuracy(network, data)[-1].correct == pytest.approx(network.correct[-1], abs=3)


@pytest.mark.parametrize("path", sorted(WEIGHTS.glob("*.npz")), ids=lambda path: path.name)
def test_weight_file_is_small_and_known(path: Path) -> None:
    assert path.stem in ARCHITECTURES
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("name", LAYERS)
def test_layer_is_fed_what_the_forward_pass_feeds_it(name: str, data: Dataset) -> None:
    layer = LAYERS[name].with_batch(3)
    x, w = layer_input(layer, data), layer_weights(layer)
    fed: list[tuple[F32, F32]] = []

    def recording(x: F32, w: F32) -> F32:
        fed.append((x, w))
        return float32_conv(x, w)

    network = load_network(name.partition("/")[0])
    first = network.architecture.stages[0].layer
    forward(network, resize_bilinear(data.images[:3], first.H, first.W), recording)
    seen_x, seen_w = fed[int(name[-1]) - 1]
    assert x.dtype == w.dtype == np.float32
    assert x.shape == layer.x_shape
    assert x == pytest.approx(seen_x, abs=1e-5)
    assert np.array_equal(w, seen_w)


def test_layer_input_is_the_same_whole_and_in_parts(data: Dataset) -> None:
    layer = LAYERS["sp18/conv2"].with_batch(CHUNK + 7)
    whole = layer_input(layer, data)
    assert layer_input(layer, data, 4) == pytest.approx(whole[:4], abs=1e-5)
    assert layer_input(layer, data, slice(CHUNK - 2, CHUNK + 3)) == pytest.approx(whole[98:103], abs=1e-5)
    assert len(layer_input(layer, data, 1_000)) == layer.B


def test_images_wrap_around_when_the_batch_is_larger_than_the_data_set() -> None:
    x = layer_input(LAYERS["fa17/conv1"].with_batch(12), SMALL)
    assert np.array_equal(x[5:10], x[:5])
    assert np.array_equal(x[10:], x[:2])
    assert np.array_equal(x[:5, 0], resize_bilinear(SMALL.images, 28, 28))


def test_channels_differ_when_the_layer_is_custom() -> None:
    layer = find_layer("B=7,C=6,H=8,W=13,M=3,K=3")
    x, resized = layer_input(layer, SMALL), resize_bilinear(SMALL.images, 8, 13)
    assert x.shape == layer.x_shape
    for b, c in np.ndindex(7, 6):
        assert np.array_equal(x[b, c], resized[(b + c) % 5])


def test_weights_are_seeded_and_of_unit_norm_when_the_layer_is_custom() -> None:
    layer = find_layer("C=8,H=9,M=64,K=3")
    w = layer_weights(layer)
    assert w.dtype == np.float32
    assert w.shape == layer.w_shape
    assert np.array_equal(w, layer_weights(layer))
    assert np.linalg.norm(w.reshape(64, -1), axis=1).mean() == pytest.approx(1, abs=0.05)


def test_layer_is_custom_when_it_only_borrows_a_name() -> None:
    layer = ConvLayer(name="sp18/conv2", B=2, C=3, H=9, W=9, M=2, K=3)
    assert layer_input(layer, SMALL).shape == layer.x_shape
    assert layer_weights(layer).shape == layer.w_shape


def test_classes_do_not_depend_on_the_chunk_or_on_double_precision(data: Dataset) -> None:
    network, images = load_network("fa20"), data.images[:25]
    ids = classify(network, images)
    assert np.array_equal(ids, classify(network, images, chunk=10))
    assert np.array_equal(ids, classify(network, images, conv=lambda x, w: reference_conv(x, w).astype(np.float32)))


def test_classes_change_when_a_kernel_is_wrong(data: Dataset) -> None:
    network = load_network("sp18")
    wrong = accuracy(network, data, (100,), conv=lambda x, w: float32_conv(x, w[:, :, ::-1, ::-1]))
    assert wrong[0].correct < accuracy(network, data, (100,))[0].correct - 10


def test_counts_are_cut_when_the_data_set_is_smaller() -> None:
    rows = accuracy(load_network("fa17"), SMALL)
    assert [row.images for row in rows] == [5]
    assert 0 <= rows[0].fraction <= 1


def test_network_is_refused_when_unknown() -> None:
    with pytest.raises(UsageError, match=r"'sp20' is unknown; there are: fa17, sp18"):
        load_network("sp20")


def test_weights_are_refused_when_missing_damaged_or_of_another_network(tmp_path: Path) -> None:
    architecture = ARCHITECTURES["fa17"]
    damaged = tmp_path / "damaged.npz"
    whole = (WEIGHTS / "fa17.npz").read_bytes()
    flipped = whole[:5_000] + bytes([whole[5_000] ^ 255]) + whole[5_001:]
    for content in (b"", b"PK\x03\x04 not a zip", whole[:-100], flipped, b"text", b"\x93NUMPY"):
        damaged.write_bytes(content)
        with pytest.raises(UsageError, match=r"damaged\.npz"):
            read_network(architecture, damaged)
    with pytest.raises(UsageError, match="No such file"):
        read_network(architecture, tmp_path / "none.npz")
    with pytest.raises(UsageError, match=r"conv1 is float32 \(6, 1, 5, 5\), expected float32 \(50, 1, 5, 5\)"):
        read_network(architecture, WEIGHTS / "sp18.npz")
