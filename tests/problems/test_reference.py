"""The reference: right on odd shapes; its tolerance passes float32 and catches one wrong tap; NaN never passes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.errors import TunerError, UsageError
from tuner.problems.accuracy import F32, F64, Floats, Precision, compare, tolerance
from tuner.problems.conv.dataset import load_test_split
from tuner.problems.conv.layers import LAYERS, ConvLayer
from tuner.problems.conv.networks import layer_input, layer_weights
from tuner.problems.conv.reference import float32_conv, reference_conv

ODD = [
    ConvLayer(name="one", B=1, C=1, H=1, W=1, M=1, K=1),
    ConvLayer(name="batch of one", B=1, C=3, H=9, W=9, M=4, K=3),
    ConvLayer(name="wide", B=2, C=2, H=5, W=11, M=3, K=4),
    ConvLayer(name="tall", B=3, C=1, H=12, W=6, M=2, K=5),
    ConvLayer(name="prime M", B=2, C=2, H=7, W=7, M=13, K=3),
    ConvLayer(name="K is 1", B=2, C=5, H=4, W=6, M=3, K=1),
    ConvLayer(name="K is H", B=2, C=2, H=6, W=6, M=3, K=6),
    ConvLayer(name="K is H, W larger", B=2, C=2, H=4, W=9, M=3, K=4),
]


def allowed(layer: ConvLayer, x: F32, w: F32, precision: Precision = "fp32") -> float:
    return tolerance(layer, layer.largest_norm({"w": w}), float(np.abs(x).max()), precision)


def random_data(layer: ConvLayer) -> tuple[F32, F32]:
    random = np.random.default_rng(1)
    return random.standard_normal(layer.x_shape, np.float32), random.standard_normal(layer.w_shape, np.float32)


def loops(x: F32, w: F32, layer: ConvLayer) -> F64:
    y = np.zeros(layer.y_shape)
    for b, m, h, q in np.ndindex(layer.y_shape):
        for c, i, j in np.ndindex(layer.w_shape[1:]):
            y[b, m, h, q] += float(x[b, c, h + i, q + j]) * float(w[m, c, i, j])
    return y


@pytest.fixture(scope="module")
def real() -> tuple[ConvLayer, F32, F32, F64, float]:
    """sp18/conv2 on five real images: layer, x, w, the reference, and the fp32 tolerance."""
    layer = LAYERS["sp18/conv2"].with_batch(5)
    x, w = layer_input(layer, load_test_split()), layer_weights(layer)
    return layer, x, w, reference_conv(x, w), allowed(layer, x, w)


@pytest.mark.parametrize("layer", ODD, ids=lambda layer: layer.name)
def test_reference_matches_plain_loops_when_the_shape_is_odd(layer: ConvLayer) -> None:
    x, w = random_data(layer)
    y = reference_conv(x, w)
    assert y.dtype == np.float64
    assert y == pytest.approx(loops(x, w, layer), abs=1e-12)


@pytest.mark.parametrize("layer", ODD, ids=lambda layer: layer.name)
def test_float32_conv_holds_the_tolerance_when_the_shape_is_odd(layer: ConvLayer) -> None:
    x, w = random_data(layer)
    outcome = compare(float32_conv(x, w), reference_conv(x, w), allowed(layer, x, w))
    assert outcome.ok, outcome


def test_reference_is_the_same_when_images_come_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = ConvLayer(name="blocks", B=7, C=2, H=9, W=8, M=3, K=3)
    x, w = random_data(layer)
    whole, y = reference_conv(x, w), float32_conv(x, w)
    y[5, 1, 2, 3] = 99
    monkeypatch.setattr("tuner.problems.accuracy.BLOCK_BYTES", 20_000)
    assert reference_conv(x, w) == pytest.approx(whole, abs=1e-12)
    monkeypatch.setattr("tuner.problems.accuracy.BLOCK_BYTES", 2_000)
    outcome = compare(y, whole, 1e-3)
    assert (outcome.wrong, outcome.first_wrong) == (1, (5, 1, 2, 3))


def test_convolution_is_refused_when_x_and_w_do_not_fit() -> None:
    with pytest.raises(TunerError, match="do not fit"):
        reference_conv(np.zeros((1, 2, 5, 5), np.float32), np.zeros((1, 3, 3, 3), np.float32))


@pytest.mark.parametrize("name", LAYERS)
def test_float32_conv_holds_the_tolerance_when_data_is_real(name: str) -> None:
    layer = LAYERS[name].with_batch(2)
    x, w = layer_input(layer, load_test_split()), layer_weights(layer)
    outcome = compare(float32_conv(x, w), reference_conv(x, w), allowed(layer, x, w))
    assert outcome.ok, (name, outcome)
    assert outcome.max_rel_error < 1e-5


Real = tuple[ConvLayer, F32, F32, F64, float]


def test_a_dropped_tap_is_caught_unless_it_is_nearly_zero(real: Real) -> None:
    layer, x, w, y_ref, atol = real
    largest_norm = np.linalg.norm(w.reshape(layer.M, -1), axis=1).max()
    passed = []
    for m, c, p, q in np.ndindex(w.shape):
        lost = float(w[m, c, p, q]) * x[:, c : c + 1, p : p + layer.H_out, q : q + layer.W_out]
        right = y_ref[:, m : m + 1]
        if compare(right - lost, right, atol).ok:
            passed.append(float(abs(w[m, c, p, q])))
    assert len(passed) <= w.size // 500
    assert max(passed, default=0.0) < 1e-4 * largest_norm


@pytest.mark.parametrize("precision", ["tf32", "fp16", "bf16"])
def test_a_dropped_filter_row_is_caught_when_precision_is_reduced(real: Real, precision: Precision) -> None:
    layer, x, w, y_ref, _ = real
    atol = allowed(layer, x, w, precision)
    less = w.copy()
    less[:, :, -1] = 0
    assert not compare(float32_conv(x, less), y_ref, atol).ok


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_swapped_output_rows_are_caught_when_only_one_channel_has_them(real: Real, precision: Precision) -> None:
    layer, x, w, y_ref, _ = real
    y = float32_conv(x, w)
    y[4, 15, [12, 13]] = y[4, 15, [13, 12]]
    outcome = compare(y, y_ref, allowed(layer, x, w, precision))
    assert 0 < outcome.wrong <= 2 * layer.W_out
    assert outcome.first_wrong is not None
    assert outcome.first_wrong[:3] in {(4, 15, 12), (4, 15, 13)}


def test_swapped_output_rows_are_caught_when_precision_is_bf16(real: Real) -> None:
    layer, x, w, y_ref, _ = real
    y = float32_conv(x, w)
    y[4, :, [12, 13]] = y[4, :, [13, 12]]
    outcome = compare(y, y_ref, allowed(layer, x, w, "bf16"))
    assert outcome.first_wrong is not None
    assert outcome.first_wrong[0] == 4


@pytest.mark.parametrize(("precision", "bits"), [("tf32", 10), ("fp16", 10), ("bf16", 7)])
def test_rounded_operands_hold_the_tolerance_when_sums_are_float32(real: Real, precision: Precision, bits: int) -> None:
    layer, x, w, y_ref, _ = real
    atol = allowed(layer, x, w, precision)
    outcome = compare(float32_conv(rounded(x, bits), rounded(w, bits)), y_ref, atol)
    assert outcome.ok, outcome
    assert outcome.max_abs_error > allowed(layer, x, w)


def rounded(values: F32, bits: int) -> F32:
    """Round to nearest, to this many bits after the leading one."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0 ** (bits + 1)) / 2.0 ** (bits + 1), exponent).astype(np.float32)


def test_tolerance_is_the_stated_formula_when_precision_is_reduced() -> None:
    layer = ConvLayer(name="t", B=1, C=4, H=3, W=3, M=2, K=2)
    w = np.zeros(layer.w_shape, np.float32)
    w[1, 0] = [[3, 0], [0, 4]]
    assert tolerance(layer, layer.largest_norm({"w": w}), 10.0) == 2 * 10 * 5 * 16 * 2.0**-24
    assert tolerance(layer, layer.largest_norm({"w": w}), 10.0, "bf16") == 2 * 10 * 5 * (16 * 2.0**-24 + 4 * 2.0**-8)


def test_tolerance_is_refused_when_input_is_not_finite_or_precision_unknown() -> None:
    layer = ConvLayer(name="t", B=1, C=1, H=3, W=3, M=1, K=1)
    w = np.ones(layer.w_shape, np.float32)
    for x_max in (math.nan, math.inf):
        with pytest.raises(UsageError, match="finite"):
            tolerance(layer, layer.largest_norm({"w": w}), x_max)
    with pytest.raises(UsageError, match="fp64"):
        tolerance(layer, layer.largest_norm({"w": w}), 1.0, "fp64")  # type: ignore[arg-type]


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_output_is_wrong_when_an_element_is_not_finite(poison: float, dtype: type) -> None:
    y_ref = np.arange(24, dtype=np.float64).reshape(2, 1, 3, 4)
    y: Floats = y_ref.astype(dtype)
    y[1, 0, 2, 3] = poison
    outcome = compare(y, y_ref, 1e30)
    assert (outcome.wrong, outcome.first_wrong) == (1, (1, 0, 2, 3))
    assert outcome.max_abs_error == math.inf


def test_output_is_wholly_wrong_when_it_was_never_written(real: Real) -> None:
    *_, y_ref, atol = real
    outcome = compare(np.full(y_ref.shape, np.nan, np.float32), y_ref, atol)
    assert outcome.wrong == y_ref.size
    assert outcome.first_wrong == (0, 0, 0, 0)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_comparison_is_refused_when_the_reference_is_not_finite(poison: float) -> None:
    y = np.zeros((2, 1, 2, 2))
    y[1, 0, 0, 0] = poison
    with pytest.raises(TunerError, match="not finite"):
        compare(y.astype(np.float32), y, 1.0)


@pytest.mark.parametrize("atol", [math.nan, math.inf, -1.0])
def test_comparison_is_refused_when_the_tolerance_says_nothing(atol: float) -> None:
    y = np.zeros((1, 1, 2, 2))
    with pytest.raises(TunerError, match="tolerance"):
        compare(y, y, atol)


def test_comparison_is_refused_when_shapes_would_broadcast() -> None:
    with pytest.raises(TunerError, match="shape"):
        compare(np.zeros((1, 1, 2, 2)), np.zeros((2, 1, 2, 2)), 1.0)


def test_relative_error_is_of_the_range_when_outputs_straddle_zero() -> None:
    y_ref = np.array([-1.0, 0.0, 1.0, 3.0]).reshape(1, 1, 2, 2)
    outcome = compare(y_ref + np.array([[0, 0], [0, 0.5]]), y_ref, 0.5)
    assert outcome.ok
    assert (outcome.max_abs_error, outcome.max_rel_error) == (0.5, 0.125)
    assert compare(np.ones((1, 1, 1, 1)), np.zeros((1, 1, 1, 1)), 0).max_rel_error == math.inf
    assert compare(np.zeros((1, 1, 1, 1)), np.zeros((1, 1, 1, 1)), 0).max_rel_error == 0
