"""The two sets of inputs: the problem's own, and numbers that are drawn anew for each would-be best."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tuner.bench.bench import Bench
from tuner.bench.guards import drawn_key
from tuner.bench.inputs import Inputs
from tuner.bench.protocol import BenchSpec
from tuner.devices import Buffer
from tuner.problems.problem import Arrays
from tuner.processes import stages


def own_inputs(bench: Bench, spec: BenchSpec) -> Inputs:
    """Prepare the problem's own inputs, and confirm the reference against NumPy.

    Raises:
        UsageError: The data cannot be read.
        DeviceError: The device's reference is wrong.
    """
    problem = bench.problem
    stages.enter("inputs")
    stock = problem.stock(bench, spec.data)
    buffers = {name: bench.uploaded(array) for name, array in stock.host.items()} | dict(stock.device)
    factors = {tensor.name: stock.host[tensor.name] for tensor in problem.inputs if not tensor.scaled}
    stages.enter("the reference's output, and the same by NumPy")
    inputs = Inputs(bench, buffers, factors, spec.precision, confirm=True)
    inputs.digest = stock.digest
    return inputs


class RandomInputs(Inputs):
    """The second set, other numbers in each process and after a renewal: magnitudes 2^-4 to 1, others normal; zeros."""

    def __init__(self, bench: Bench, spec: BenchSpec) -> None:
        stock = {tensor.name: bench.allocated(tensor.size) for tensor in bench.problem.inputs}
        super().__init__(bench, stock, _drawn(bench, stock), spec.precision)

    def renew(self) -> None:
        """Draw all numbers anew, so that nothing kept from earlier launches can serve.

        Raises:
            StrayWrite: The old ones, or what was expected of them, had been written to.
        """
        self.audit()
        self._settle(_drawn(self.bench, self.stock))


def _drawn(bench: Bench, stock: Mapping[str, Buffer]) -> Arrays:
    """Fill the stock with random numbers; return all but the scaled input's."""
    problem = bench.problem
    generator = np.random.default_rng(secrets.randbits(64))
    host = {}
    for tensor in problem.inputs:
        if tensor.scaled:
            numbers = np.uint64(tensor.size), np.uint32(drawn_key())
            bench.run("fill_magnitudes", tensor.size, stock[tensor.name], *numbers)
        else:
            normal = generator.standard_normal(tensor.shape, dtype=np.float32)
            normal *= _zeros(generator, tensor.shape)
            host[tensor.name] = normal / np.float32(np.sqrt(problem.terms))
            bench.device.upload(stock[tensor.name], host[tensor.name])
    return host


def _zeros(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return ones, and zeros of either sign in one of sixteen places."""
    drawn = generator.integers(32, size=shape)
    return np.where(drawn == 0, np.float32(0), np.where(drawn == 1, np.float32(-0.0), np.float32(1)))
