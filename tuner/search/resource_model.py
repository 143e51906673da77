"""Predict what a configuration will use of the device, from compiled configurations around it.

A thread's *demand* is its registers plus the words that did not fit them (local memory). A Gaussian process on its
logarithm learns from the study's own results, so it works for any template; warps on a multiprocessor follow from the
launch and the registers. ``tests/benchmarks/predictor.py`` measures how well.

Source:
    CUDA C++ Programming Guide, "Compute Capabilities": registers of a thread, threads and blocks of a multiprocessor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tuner.devices.occupancy import RESERVED_BYTES, WARP, Multiprocessor, resident_blocks
from tuner.kernels.configuration import Configuration
from tuner.kernels.launch import Launch
from tuner.kernels.limits import DeviceLimits
from tuner.results import Resources
from tuner.search.arrays import Floats
from tuner.search.candidates import Candidates
from tuner.search.gp.kernel import Kernel, Prior
from tuner.search.gp.likelihood import fit
from tuner.search.gp.posterior import Posterior
from tuner.search.gp.threads import one_thread

THREAD_REGISTERS = 255  # most registers of a thread
REGISTER_STEP = 8  # granularity of a thread's registers
BLOCKS, THREADS = 32, 2048  # most of a multiprocessor of compute capability 8.0, 9.0 or 10.0
MOST_KNOWN = 160  # latest results that the model holds
RENEW = 8  # results, or an eighth of all results, between two factorisations
GROWTH = 1.5  # factor in the number of results between two fits of the hyperparameters
STEPS = 12  # iterations of a fit


def warps_of(launch: Launch) -> int:
    """Return the warps of a block."""
    x, y, z = launch.block
    return -(-x * y * z // WARP)


def register_limit(configuration: Configuration, launch: Launch, limits: DeviceLimits) -> int:
    """Return the registers a thread may have: by the device, and by the resident blocks asked for (MIN_BLOCKS)."""
    blocks = configuration.as_dict().get("MIN_BLOCKS", 1)
    threads = warps_of(launch) * WARP * (blocks if isinstance(blocks, int) else 1)
    return min(THREAD_REGISTERS, limits.registers // threads // REGISTER_STEP * REGISTER_STEP)


def resident_warps(launch: Launch, registers: float, limits: DeviceLimits) -> int:
    """Return how many warps a multiprocessor holds at once, given the registers of a thread, which may be a mean."""
    warps = warps_of(launch)
    whole = math.ceil(max(registers, 1))
    return resident_blocks(multiprocessor_of(limits), warps * WARP, whole, launch.shared_bytes) * warps


def multiprocessor_of(limits: DeviceLimits) -> Multiprocessor:
    """Return a multiprocessor's resources as far as known: its shared memory fits one block of the largest size."""
    return Multiprocessor(
        threads=THREADS,
        blocks=BLOCKS,
        registers=limits.registers,
        block_registers=limits.registers,
        shared_bytes=limits.shared_bytes + RESERVED_BYTES,
    )


def demand_of(resources: Resources) -> float | None:
    """Return a thread's registers plus spilled words, or None where the device does not report them."""
    if not resources.registers:
        return None
    return resources.registers + (resources.local_bytes or 0) / 4


class Demand:
    """Predicts the logarithm (base 2) of a configuration's demand."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._kernel = Kernel(candidates.model_features, Prior())
        self._known: dict[int, float] = {}
        self._fitted = self._renewed = 0
        self._mean, self._spread = 0.0, 1.0
        self._posterior: Posterior | None = None

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, index: int, demand: float) -> None:
        """Add the demand of a compiled configuration."""
        self._known[index] = float(np.log2(demand))

    def predict(self, indices: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the expected logarithms and their standard deviations; needs at least two results."""
        with one_thread():
            posterior = self._posterior
            if posterior is None or len(self._known) >= self._renewed + max(RENEW, self._renewed // RENEW):
                posterior = self._posterior = self._renew()
            expected, whitened = posterior.at(self._candidates.codes_of(indices))
            variance = np.maximum(posterior.variance(whitened), 0) + self._kernel.noise
            return expected * self._spread + self._mean, np.sqrt(variance) * self._spread

    def _renew(self) -> Posterior:
        held = list(self._known)[-MOST_KNOWN:]
        codes, values = self._candidates.codes_of(held), np.array([self._known[row] for row in held])
        self._mean, self._spread = float(values.mean()), float(values.std()) or 1.0
        target, noise = (values - self._mean) / self._spread, np.zeros(len(held))
        self._renewed = len(self._known)
        if self._renewed >= GROWTH * self._fitted:
            fit(self._kernel, codes, target, noise, STEPS)
            self._fitted = len(self._known)
        return Posterior(self._kernel, codes, target, noise)
