"""Suggestions for an unknown name: a similar one, or all of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

CUTOFF = 0.75  # of difflib's ratio: 'conv9' is near 'conv2', 'lenet' is near nothing
LISTED = 6


def alternatives(unknown: str, known: Sequence[str], also: Sequence[str] = ()) -> str:
    """Return the end of an error about an unknown name: a similar one, else the known ones, shortened.

    Args:
        also: Other names that may be meant but are not listed.
    """
    names = [*known, *also]
    near = [name for name in names if name.casefold() == unknown.casefold()]
    near = near or difflib.get_close_matches(unknown, names, n=1, cutoff=CUTOFF)
    return f"did you mean '{near[0]}'?" if near else f"there are: {listed(known)}"


def listed(names: Sequence[str]) -> str:
    """Return the names, or the first of many and how many more there are; one with spaces in it is quoted."""
    shown = names if len(names) <= LISTED + 1 else names[:LISTED]
    text = ", ".join(f"'{name}'" if " " in name else name for name in shown)
    return text if len(shown) == len(names) else f"{text} and {len(names) - len(shown)} more"
