"""How a launch's grid follows the batch: what the template's own arithmetic says when it is given the letter B."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.errors import Infeasible
from tuner.kernels.configuration import Configuration
from tuner.kernels.expressions import BATCH, Expression
from tuner.kernels.launch import Launch
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem

Rules = tuple[Expression, Expression, Expression]
ALIGNMENT = 256  # bytes, of what cudaMalloc returns


@dataclass(frozen=True, slots=True)
class Geometry:
    """A configuration's launch, and its grid for any batch where the template's arithmetic gives one.

    Attributes:
        rules: One per grid dimension; None when the template asks what only a number answers.
        why: What it asks then.
    """

    launch: Launch
    rules: Rules | None
    why: str = ""

    def batches(self, problem: Problem) -> tuple[int, int]:
        """Return the fewest and the most rows of a launch: no more than were run and checked."""
        return (problem.rows if self.rules is None else 1), problem.rows

    def part(self, problem: Problem) -> int:
        """Return how many rows each launch of a larger batch has, so that all are aligned; 0 where there is no such."""
        if self.rules is None:
            return 0
        row_bytes = (tensor.nbytes // problem.rows for tensor in problem.tensors if tensor.rows)
        step = math.lcm(*(ALIGNMENT // math.gcd(each, ALIGNMENT) for each in row_bytes))
        return problem.rows - problem.rows % step

    def at(self, B: int) -> Launch:
        """Return the launch that a header's macros give for a batch."""
        if self.rules is None:
            return self.launch
        x, y, z = (rule.at(B) for rule in self.rules)
        return Launch(grid=(x, y, z), block=self.launch.block, shared_bytes=self.launch.shared_bytes)


def find_geometry(template: KernelTemplate, configuration: Configuration, problem: Problem) -> Geometry:
    """Return a configuration's geometry; its rules are compared with the template's numbers for a few batches."""
    launch = template.launch_of(configuration, problem)
    try:
        for_any = template.launch_of(configuration, problem.with_rows(BATCH))  # type: ignore[arg-type]
    except Infeasible as error:
        return Geometry(launch, None, str(error))
    if any(isinstance(each, Expression) for each in (*for_any.block, for_any.shared_bytes)):
        return Geometry(launch, None, "more than the grid follows B")
    x, y, z = (each if isinstance(each, Expression) else Expression((), each) for each in for_any.grid)
    if not (x.rises and y.rises and z.rises):
        return Geometry(launch, None, f"more {problem.ROWS_NOUN} have fewer blocks")
    found = Geometry(launch, (x, y, z))
    for B in (1, 2, 7, problem.rows, problem.rows + 1, 100_003):
        try:
            other = template.launch_of(configuration, problem.with_rows(B))
        except Infeasible as error:
            return Geometry(launch, None, str(error))
        if other != found.at(B):
            return Geometry(launch, None, f"for B = {B} the launch is another")
    return found
