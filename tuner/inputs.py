"""The data a layer is checked and timed on: what its trained network feeds it, and a second, random set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from tuner import stages
from tuner.bench import Bench, confirm_reference
from tuner.dataset import load_test_split
from tuner.devices import Array, Buffer
from tuner.errors import WrongResult
from tuner.layers import FLOAT_BYTES, ConvLayer
from tuner.networks import layer_input, layer_weights, stage_before
from tuner.protocol import BenchSpec, ragged_batches
from tuner.reference import Precision, tolerance

RANDOM_SEED = 20170712


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """x and w on a device, the reference's output for them, and how far a kernel may stray from it."""

    bench: Bench
    layer: ConvLayer
    x: Buffer
    w: Buffer
    expected: Buffer
    tolerance: float
    digest: str
    original: tuple[int, int]

    def verify(self, batch: int | None = None) -> float:
        """Check the bench's y for the first ``batch`` images (all if None); return the largest error.

        Raises:
            WrongResult: y is wrong, or something outside it was written, x and w included.
        """
        layer = self.layer if batch is None else self.layer.with_batch(batch)
        error = self.bench.verify(self.expected, layer, self.tolerance)
        if self.checksum() != self.original:
            raise WrongResult("the kernel wrote to its inputs x or w")
        return error

    def checksum(self) -> tuple[int, int]:
        """Return hashes of x and w as they are now."""
        return _checksum(self.bench, self.layer, self.x, self.w)


def network_inputs(bench: Bench, spec: BenchSpec) -> Inputs:
    """Prepare the real inputs of a layer, and confirm the reference against NumPy.

    Raises:
        UsageError: The data set cannot be read.
        DeviceError: The device's reference is wrong.
    """
    layer, device = bench.layer, bench.device
    stages.enter("images and weights")
    dataset = load_test_split(spec.data)
    w = layer_weights(layer)
    before = stage_before(layer)
    if before is None:
        x = uploaded(bench, layer_input(layer, dataset))
    else:
        stage, w_before = before
        fed = stage.layer.with_batch(layer.B)
        x = device.allocate(FLOAT_BYTES * _count(layer))
        y_before = device.allocate(FLOAT_BYTES * fed.y_size)
        bench.convolve(uploaded(bench, layer_input(fed, dataset)), uploaded(bench, w_before), y_before, fed)
        planes, flags = np.uint64(fed.B * fed.M), (np.int32(stage.pool), np.int32(stage.activation == "relu"))
        sides = np.int32(fed.H_out), np.int32(fed.W_out)
        bench.run("activate_and_pool", _count(layer), y_before, x, planes, *sides, *flags)
        device.synchronize()
    stages.enter("the reference's output, and the same by NumPy")
    inputs = _inputs(bench, layer, x, w, spec.precision)
    inputs = replace(inputs, digest=hashlib.sha256(dataset.digest.encode() + w.tobytes()).hexdigest())
    confirm_reference(bench, inputs.x, w, inputs.expected, inputs.tolerance)
    return inputs


def random_inputs(bench: Bench, spec: BenchSpec) -> Inputs:
    """Prepare the second set: x uniform in [-1, 1), w normal, and as many images as the ragged batches need."""
    layer = bench.layer.with_batch(max(ragged_batches(bench.layer.B)))
    count = _count(layer)
    x = bench.device.allocate(FLOAT_BYTES * count)
    bench.run("fill_random", count, x, np.uint64(count), np.uint32(RANDOM_SEED))
    w = np.random.default_rng(RANDOM_SEED).standard_normal(layer.w_shape, dtype=np.float32)
    return _inputs(bench, layer, x, w / np.float32(np.sqrt(layer.reduction)), spec.precision)


def _inputs(bench: Bench, layer: ConvLayer, x: Buffer, w: Array, precision: Precision) -> Inputs:
    w_device = uploaded(bench, w)
    expected = bench.device.allocate(FLOAT_BYTES * layer.y_size)
    bench.convolve(x, w_device, expected, layer)
    return Inputs(
        bench=bench,
        layer=layer,
        x=x,
        w=w_device,
        expected=expected,
        tolerance=tolerance(layer, w, bench.largest(x, _count(layer)), precision),
        digest=hashlib.sha256(w.tobytes()).hexdigest(),
        original=_checksum(bench, layer, x, w_device),
    )


def _count(layer: ConvLayer) -> int:
    return layer.B * layer.C * layer.H * layer.W


def _checksum(bench: Bench, layer: ConvLayer, x: Buffer, w: Buffer) -> tuple[int, int]:
    return bench.checksum(x, _count(layer)), bench.checksum(w, layer.M * layer.reduction)


def uploaded(bench: Bench, array: Array) -> Buffer:
    """Return a new buffer on the bench's device with an array's contents."""
    buffer = bench.device.allocate(array.nbytes)
    bench.device.upload(buffer, array)
    return buffer
