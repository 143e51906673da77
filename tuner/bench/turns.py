"""How the contents of a launch differ from the stock: turned by rows and columns, and scaled by powers of two."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass

import numpy as np

from tuner.kernels.limits import Magnitudes
from tuner.problems.problem import Problem, Tensor

WIDEST_SCALE = 20  # x of the second set is scaled by up to 2^20 either way, where a template does not say less
FACTORS = (-20, -14), (-13, -1), (0, 9), (10, 20)  # exponents of what the second set's other factors are scaled by
LEAST, MOST = -4, 0  # exponents of the second set's magnitudes, zeros apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How a launch's contents differ from the stock.

    Attributes:
        rows: Row r of the launch is row ``r + rows`` of the stock.
        columns: Column c of the launch is column ``c + columns`` of the stock.
        scale: A power of two that the scaled input, and so the output, is multiplied by.
        factor: Another, of the input that the output is proportional to besides.
    """

    rows: int = 0
    columns: int = 0
    scale: float = 1.0
    factor: float = 1.0

    @property
    def of_output(self) -> float:
        """What the output is multiplied by."""
        return self.scale * self.factor

    def scale_of(self, tensor: Tensor) -> float:
        if tensor.output:
            return self.of_output
        return self.scale if tensor.scaled else self.factor if tensor.proportional else 1.0

    def of(self, tensor: Tensor, stock: Tensor) -> Turned:
        """Return where a tensor's elements are in the stock of its kind, with planes turned by whole columns."""
        scale, rows = self.scale_of(tensor), self.rows if tensor.rows else 0
        if tensor.columns is None:
            per = tensor.shape[1] if len(tensor.shape) > 2 else 1
            planes, groups, columns = tensor.shape[0] * per, stock.shape[0], 0
            size = tensor.size // planes
        else:
            placed, groups = (math.prod(each.shape[: tensor.columns]) for each in (tensor, stock))
            per, size = tensor.shape[tensor.columns], math.prod(tensor.shape[tensor.columns + 1 :])
            planes, columns = placed * per, self.columns
        return Turned(planes=planes, size=size, per=per, groups=groups, groups_on=rows, planes_on=columns, scale=scale)


AS_IN_STOCK = Turn()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """Where a tensor's elements are in the stock, as the kernels of ``bench.cu`` are told.

    Attributes:
        planes, size: How many planes are placed, and a plane's elements.
        per, groups: Planes of a group, and groups of the stock.
        groups_on, planes_on, elements_on: By how many each is turned.
    """

    planes: int
    size: int
    per: int
    groups: int
    groups_on: int = 0
    planes_on: int = 0
    elements_on: int = 0
    scale: float = 1.0

    def by_elements(self) -> Turned:
        """Return the same with whole groups as planes: a group's planes are neighbours, so its elements turn."""
        return Turned(
            planes=self.planes // self.per,
            size=self.per * self.size,
            per=1,
            groups=self.groups,
            groups_on=self.groups_on,
            elements_on=self.planes_on * self.size,
            scale=self.scale,
        )

    @property
    def extent(self) -> tuple[int, int]:
        return self.planes, self.size

    @property
    def arguments(self) -> tuple[np.generic, ...]:
        numbers = self.size, self.per, self.groups, self.groups_on, self.planes_on, self.elements_on
        return (np.uint64(self.planes), *(np.uint32(number) for number in numbers), np.float32(self.scale))


def elements_turn(problem: Problem) -> bool:
    """Whether rotating the output's columns moves single elements, and not whole runs of them."""
    columns = problem.output.columns
    return columns is not None and columns == len(problem.output.shape) - 1


def drawn_scale(magnitudes: Magnitudes) -> float:
    """Return a random power of two by which the second set stays within ``magnitudes``."""
    least, most = magnitudes
    low = max(-WIDEST_SCALE, int(np.ceil(np.log2(least))) - LEAST)
    high = min(WIDEST_SCALE, int(np.floor(np.log2(most))) - MOST - 1)
    return float(2.0 ** (low + secrets.randbelow(max(1, high - low + 1))))
