"""The outputs of a configuration and of the reference on the inputs in stock, for a problem's own judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.bench.turns import AS_IN_STOCK
from tuner.problems.accuracy import F32
from tuner.problems.problem import FLOAT_BYTES, Arrays, Problem

if TYPE_CHECKING:
    from tuner.bench.trial import Trial
    from tuner.devices import Buffer


class TrialOutputs:
    """A configuration's output beside the reference's.

    Raises:
        WrongResult, TimedOut, Crashed: As the configuration deserves, which runs once.
    """

    def __init__(self, trial: Trial) -> None:
        trial.check(AS_IN_STOCK)
        self._bench, self._shape = trial.bench, trial.inputs.problem.output.shape
        self._ours, self._theirs = trial.bench.y, trial.inputs.revealed()

    def rows(self, start: int, count: int) -> tuple[F32, F32]:
        return self._rows(self._ours, start, count), self._rows(self._theirs, start, count)

    def reference(self, problem: Problem, arrays: Arrays) -> F32:
        output = problem.output
        buffer = self._bench.allocated(output.size)
        inputs = {name: self._bench.uploaded(np.ascontiguousarray(array)) for name, array in arrays.items()}
        self._bench.reference(problem, inputs | {output.name: buffer})
        words: F32 = self._bench.device.download(buffer, np.float32, output.size)
        return words.reshape(output.shape)

    def _rows(self, buffer: Buffer, start: int, count: int) -> F32:
        each = int(np.prod(self._shape[1:]))
        words: F32 = self._bench.device.download(buffer, np.float32, count * each, FLOAT_BYTES * start * each)
        return words.reshape(count, *self._shape[1:])
