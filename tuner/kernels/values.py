"""The values that constraints and launch geometry read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Values:
    """Parameter values as attributes: scalars of one configuration, or NumPy columns of many.

    A parameter whose choices read ``32x8`` adds two numbers: ``BLOCK_SHAPE`` gives ``BLOCK_X`` and ``BLOCK_Y``.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name, name=name, obj=self) from None

    def names(self) -> Sequence[str]:
        """Return the names that can be read."""
        return list(self._values)


def mapping_of(values: Values) -> Mapping[str, Any]:
    """Return the underlying mapping of values by name."""
    return values._values
