"""Our kernels' side of a comparison, in the worker: check and warm up each contender once, then sample it on demand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.bench.protocol import BenchSpec, Task, Verdict
from tuner.bench.trial import Trial
from tuner.bench.worker_process import prepared, verdict_of
from tuner.compare.torch_side import EXPECTED
from tuner.devices import Buffer
from tuner.errors import DeviceError, Rejected, TunerError
from tuner.problems.accuracy import INPUT_ROUNDOFF, tolerance
from tuner.problems.problem import FLOAT_BYTES
from tuner.results import OK, Evaluation

DOWNLOAD_BYTES = 256 << 20  # bytes copied from the device at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFacts:
    """What PyTorch's process needs to know about the reference.

    Attributes:
        output_range: max y - min y of the reference's output, zero included: what errors are relative to.
        tolerances: Largest absolute error of a correct kernel, by precision.
        flush_bytes: Bytes written before each of our timed launches.
    """

    output_range: float
    tolerances: dict[str, float]
    flush_bytes: int


_entered: dict[str, Trial] = {}


def hand_over(spec: BenchSpec, folder: str | None) -> ReferenceFacts:
    """Return the output's range and the tolerances; write inputs and expected output to ``folder``, if there is one.

    Raises:
        TunerError: They cannot be written to the folder.
    """
    state = prepared(spec)
    inputs, problem = state.inputs, spec.problem
    try:
        low, high = _download(spec, inputs.revealed(), problem.output.shape, _file(folder, EXPECTED))
        for tensor in problem.inputs if folder else ():
            _download(spec, inputs.stock[tensor.name], tensor.shape, _file(folder, f"{tensor.name}.npy"))
    except OSError as error:
        raise TunerError(f"inputs and output cannot be written to {folder} ({error.strerror}); set TMPDIR") from None
    return ReferenceFacts(
        output_range=high - low,
        tolerances={
            name: tolerance(problem, inputs.norm, inputs.largest, name)  # type: ignore[arg-type]
            for name in INPUT_ROUNDOFF
        },
        flush_bytes=state.bench.flush_bytes,
    )


def _file(folder: str | None, name: str) -> Path | None:
    return Path(folder) / name if folder else None


def _download(spec: BenchSpec, source: Buffer, shape: tuple[int, ...], path: Path | None) -> tuple[float, float]:
    """Copy an array from the device to a .npy file, if one is wanted; return its least and largest value and 0."""
    device = prepared(spec).device
    count = int(np.prod(shape))
    target = np.lib.format.open_memmap(path, "w+", np.float32, shape).reshape(-1) if path else None
    low = high = 0.0
    step = DOWNLOAD_BYTES // FLOAT_BYTES
    for start in range(0, count, step):
        part = device.download(source, np.float32, min(step, count - start), offset=FLOAT_BYTES * start)
        low, high = min(low, float(part.min())), max(high, float(part.max()))
        if target is not None:
            target[start : start + len(part)] = part
    return low, high


def enter(spec: BenchSpec, name: str, task: Task) -> Verdict:
    """Check a contender on the real inputs, confirm it on others if its task asks for that, and warm it up."""
    state = prepared(spec)
    try:
        trial = state.trial(task)
        error = trial.check()
        if task.confirm:
            trial.confirm(state.second)
        trial.warm_up()
    except (Rejected, DeviceError) as failed:
        return verdict_of(state, failed)
    _entered[name] = trial
    used = trial.kernel.resources
    return Verdict(evaluation=Evaluation(outcome=OK, max_error=error, resources=used, confirmed=bool(task.confirm)))


def sample(spec: BenchSpec, name: str) -> float:
    """Return one sample of a contender in seconds, from a cold cache.

    Raises:
        TunerError: It failed now, or it was entered in an earlier process.
    """
    prepared(spec)
    if name not in _entered:
        raise TunerError("the worker was replaced during the comparison")
    return max(_entered[name].sample(), 1e-9)
