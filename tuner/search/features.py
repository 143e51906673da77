"""Numeric features of one parameter's choices, each scaled to [0, 1]."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuner.search.arrays import Floats

Kind = Literal["number", "valuation", "exact", "flag", "word", "volume"]


@dataclass(frozen=True, slots=True)
class Feature:
    """A property by which a model can tell configurations apart.

    Attributes:
        column: The column of its codes in :meth:`Candidates.codes_of`.
        distances: Between each two codes.
        kind: Its kind, which determines the prior of how much and how smoothly it matters.
    """

    column: int
    distances: Floats
    kind: Kind = "number"


NUMBERS: tuple[Kind, Kind] = ("number", "valuation")
_SHAPE = re.compile(r"(\d+)x(\d+)")


def encode(choices: Sequence[int | float | str]) -> Floats:
    """Return one row of features per choice, shape (len(choices), d)."""
    shapes = [shape_of(choice) for choice in choices]
    if None not in shapes:
        return np.hstack([_numbers(np.array(side, dtype=float)) for side in zip(*filter(None, shapes), strict=True)])
    if is_word(choices):
        return np.eye(len(choices)) if len(choices) > 2 else np.arange(len(choices), dtype=float)[:, None]
    return _numbers(np.array(choices, dtype=float))


def number_kinds(choices: Sequence[int | float | str]) -> list[Kind]:
    """Name the columns of :func:`encode` for numbers or shapes."""
    shapes = [shape_of(choice) for choice in choices]
    sides = [choices] if None in shapes else list(zip(*filter(None, shapes), strict=True))
    kinds: list[Kind] = []
    for side in sides:
        columns = _numbers(np.array(side, dtype=float)).shape[1]
        kinds += NUMBERS[:columns]
    return kinds


def is_word(choices: Sequence[int | float | str]) -> bool:
    """Tell whether choices have no order: words, or numbers that count 0, 1, 2 and so select a variant."""
    if any(isinstance(choice, str) for choice in choices):
        return any(shape_of(choice) is None for choice in choices)
    return len(choices) > 2 and sorted(map(float, choices)) == list(range(len(choices)))


def pairwise(coordinates: Floats) -> Floats:
    """Return the Euclidean distance between each two rows."""
    apart = coordinates[:, None, :] - coordinates[None, :, :]
    return np.asarray(np.sqrt((apart**2).sum(axis=-1)))


def shape_of(choice: int | float | str) -> tuple[int, int] | None:
    """Return (32, 8) for ``32x8`` and None for anything else."""
    match = _SHAPE.fullmatch(choice) if isinstance(choice, str) else None
    return (int(match[1]), int(match[2])) if match else None


def volumes(choices: Sequence[int | float | str]) -> Floats | None:
    """Return the logarithm of each size, X times Y for a shape; None where choices are not sizes."""
    values = [shape[0] * shape[1] if (shape := shape_of(choice)) else choice for choice in choices]
    if any(isinstance(value, str) or value <= 0 for value in values):
        return None
    return np.asarray(np.log2(np.array(values, dtype=float)))


def _numbers(values: Floats) -> Floats:
    """Scale numbers by their logarithm, and add how often 2 divides them where not all are powers of two.

    The valuation is what alignment, bank conflicts and vector loads depend on.
    """
    if len(set(values)) == 1:
        return np.zeros((len(values), 0))
    columns = [np.log2(values) if values.min() > 0 else values]
    valuation = np.array([_valuation(value) for value in values])
    if values.min() > 0 and len(values) > 2 and np.any(valuation != columns[0]) and np.ptp(valuation) > 0:
        columns.append(valuation)
    return np.stack([(column - column.min()) / np.ptp(column) for column in columns], axis=1)


def _valuation(value: float) -> float:
    """Return how often 2 divides a whole number; 0 for others."""
    number = int(value)
    return float((number & -number).bit_length() - 1) if number == value and number else 0.0
