"""What a network makes of a configuration, end to end."""

from __future__ import annotations

import numpy as np
import pytest
from small_run import Silent

from tuner.kernels.loading import builtin_templates
from tuner.problems.conv.agreement import ClassAgreement
from tuner.problems.conv.dataset import load_test_split
from tuner.problems.conv.layers import find_layer
from tuner.problems.conv.networks import classify, classify_from, layer_input, load_network
from tuner.problems.conv.reference import float32_conv
from tuner.tuning import RunOptions, tune


@pytest.mark.parametrize("name", ["fa17/conv1", "sp18/conv1", "sp18/conv2", "fa20/conv2"])
def test_rest_of_the_network_gives_the_classes_of_the_whole(name):
    layer, data = find_layer(name, 20), load_test_split()
    network, key = load_network(name.split("/")[0]), name.split("/")[1]
    y = float32_conv(layer_input(layer, data), network.weights[key])
    ids = classify_from(network, key, y)
    assert ids.tolist() == classify(network, data.images[:20]).tolist()
    assert classify_from(network, key, np.zeros_like(y)).tolist() != ids.tolist()


@pytest.mark.parametrize(("precision", "images"), [("fp32", None), ("bf16", 30)])
def test_run_prints_the_class_agreement_where_factors_may_be_rounded(tmp_path, precision, images):
    options = RunOptions(
        problem=find_layer("sp18/conv1", 30),
        device="cpu",
        templates=(builtin_templates()["direct"],),
        storage=f"sqlite:///{tmp_path}/t.db",
        sampler="random",
        trials=2,
        precision=precision,
    )
    report = tune(options, Silent())
    assert report.tolerance is not None
    assert report.tolerance > 0
    if images is None:
        assert report.agreement is None
    else:
        found = report.agreement
        assert isinstance(found, ClassAgreement)
        assert images is not None
        assert (found.images, found.same) == (images, images)
        assert found.correct == found.correct_fp32 > images // 2
        assert "30 of 30 images" in str(found)
