"""What a configuration will use of the device, learnt from the compiled ones around it.

A thread's *demand* is the registers it has and the words that did not fit them (local memory). A Gaussian process on
its logarithm follows the study's own results, so that it serves any template; warps on a multiprocessor follow from
the launch alone. ``tests/benchmark_predictor.py`` measures how well.

Source:
    CUDA C++ Programming Guide, "Compute Capabilities": registers and warps of a multiprocessor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.results import Resources
from tuner.search.candidates import Candidates, Floats
from tuner.search.evidence import JITTER
from tuner.search.gp import Kernel, Prior
from tuner.search.surrogate import one_thread
from tuner.templates import Configuration, DeviceLimits, Launch

LANES = 32
THREAD_REGISTERS = 255
REGISTER_STEP = 8
MOST_BLOCKS = 32  # resident on a multiprocessor
MOST_WARPS = 64
RESERVED_SHARED = 1024  # bytes of each block that the system keeps; a multiprocessor has that beside one block's most
MOST_KNOWN = 160
RENEW = 8  # results between two factorisations, or an eighth of those there are
GROWTH = 1.5  # of the results between two fits of the hyperparameters
STEPS = 12  # of a fit


def warps_of(launch: Launch) -> int:
    """Return the warps of a block."""
    x, y, z = launch.block
    return -(-x * y * z // LANES)


def register_limit(configuration: Configuration, launch: Launch, limits: DeviceLimits) -> int:
    """Return the registers a thread may have: by the device, and by the resident blocks asked for (MIN_BLOCKS)."""
    blocks = configuration.as_dict().get("MIN_BLOCKS", 1)
    threads = warps_of(launch) * LANES * (blocks if isinstance(blocks, int) else 1)
    return min(THREAD_REGISTERS, limits.registers // threads // REGISTER_STEP * REGISTER_STEP)


def resident_warps(launch: Launch, registers: float, limits: DeviceLimits) -> int:
    """Return how many warps a multiprocessor holds at once, by registers, shared memory and its own limits."""
    warps = warps_of(launch)
    rounded = -(-max(registers, 1) // REGISTER_STEP) * REGISTER_STEP
    by_registers = limits.registers // int(rounded * LANES * warps)
    by_shared = (limits.shared_bytes + RESERVED_SHARED) // (launch.shared_bytes + RESERVED_SHARED)
    return min(by_registers, by_shared, MOST_BLOCKS, MOST_WARPS // warps) * warps


def demand_of(resources: Resources) -> float | None:
    """Return a thread's registers and spilled words together, or None where the device does not tell."""
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
        self._model: _Model | None = None

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, index: int, demand: float) -> None:
        self._known[index] = float(np.log2(demand))

    def predict(self, indices: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the expected logarithms and their standard deviations; needs two results at least."""
        with one_thread():
            if self._model is None or len(self._known) >= self._renewed + max(RENEW, self._renewed // RENEW):
                self._model = self._renew()
            return self._model.predict(indices)

    def _renew(self) -> _Model:
        held = list(self._known)[-MOST_KNOWN:]
        values = np.array([self._known[row] for row in held])
        self._renewed = len(self._known)
        if self._renewed >= GROWTH * self._fitted:
            self._fit(held, values)
        return _Model(self._kernel, self._candidates, held, values)

    def _fit(self, held: Sequence[int], values: Floats) -> None:
        target = (values - values.mean()) / (values.std() or 1.0)
        self._kernel.fit(self._candidates.codes_of(held), target, np.zeros(len(held)), STEPS)
        self._fitted = len(self._known)


class _Model:
    """The process conditioned on some results."""

    def __init__(self, kernel: Kernel, candidates: Candidates, held: Sequence[int], values: Floats) -> None:
        from scipy.linalg import cho_solve, cholesky

        self._kernel, self._candidates = kernel, candidates
        self._mean, self._spread = float(values.mean()), float(values.std()) or 1.0
        codes = candidates.codes_of(held)
        self._columns = kernel.columns(codes)
        covariance = kernel.matrix(codes, self._columns)
        covariance[np.diag_indices(len(held))] += kernel.noise + JITTER
        self._factor = cholesky(covariance, lower=True)
        self._weights = cho_solve((self._factor, True), (values - self._mean) / self._spread)
        self._scale, self._noise = kernel.scale, kernel.noise

    def predict(self, indices: Sequence[int]) -> tuple[Floats, Floats]:
        from scipy.linalg import solve_triangular

        cross = self._kernel.matrix(
            self._candidates.codes_of(indices), self._columns
        )  # few rows: a loop runs over them
        whitened = solve_triangular(self._factor, cross.T, lower=True, check_finite=False)
        variance = np.maximum(self._scale - np.einsum("ij,ij->j", whitened, whitened), 0) + self._noise
        return cross @ self._weights * self._spread + self._mean, np.sqrt(variance) * self._spread
