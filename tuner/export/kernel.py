"""What both halves of a header are written from."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.export.geometry import Geometry
from tuner.problems.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel on its way into a header.

    Attributes:
        prefix: The start of every macro.
        entry: The kernel's name there.
        source: Its text, with that name.
        options: What OpenCL's compiler must be given; empty for CUDA.
    """

    problem: Problem
    prefix: str
    entry: str
    source: str
    geometry: Geometry
    options: str = ""
