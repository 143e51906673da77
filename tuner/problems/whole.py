"""A kernel's output judged by what its problem is a part of: what the bench gives, and what comes back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.problems.problem import Arrays, Problem

F32 = NDArray[np.float32]


class Outputs(Protocol):
    """What a configuration and the reference kernel made of the same inputs."""

    def rows(self, start: int, count: int) -> tuple[F32, F32]:
        """Return a few rows of the configuration's output, and the same of the reference's."""

    def reference(self, problem: Problem, arrays: Arrays) -> F32:
        """Compute another problem of the same kind with the reference kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(ABC):
    """How far the whole agrees with itself, with a configuration's output and with the reference's."""

    @abstractmethod
    def __str__(self) -> str:
        """Say it in a line."""
