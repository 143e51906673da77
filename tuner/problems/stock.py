"""The inputs a problem is checked and timed on, on their way to the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.problems.problem import Problem

Buffer = Any  # a buffer of the device's own


class DeviceArrays(Protocol):
    """What a problem may ask of a device to make its inputs there."""

    def uploaded(self, array: NDArray[np.float32]) -> Buffer:
        """Return a new buffer with an array's contents."""

    def allocated(self, elements: int) -> Buffer:
        """Return a new buffer of float32."""

    def reference(self, problem: Problem, buffers: Mapping[str, Buffer]) -> None:
        """Run the plain kernel of a problem of the same kind."""

    def run(self, name: str, elements: int, *arguments: Any) -> None:
        """Run one of the bench's kernels, or of those that the problem's kind adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Inputs by the tensors' names.

    Attributes:
        host: Those that are known on the host; all but the scaled one must be.
        device: Those that were made on the device.
        digest: Hash of what they came from; part of each fingerprint.
    """

    host: Mapping[str, NDArray[np.float32]]
    device: Mapping[str, Buffer] = field(default_factory=dict)
    digest: str
