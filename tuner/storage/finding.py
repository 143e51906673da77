"""Which study a user means."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tuner.errors import UsageError
from tuner.layers import DEFAULT_NETWORK
from tuner.storage.models import StudyRow

_LISTED = 6


def pick_study(text: str, rows: Sequence[StudyRow], where: str) -> StudyRow:
    """Pick by exact name, Optuna's id, layer (newest), or the start of one name; ``rows`` are in order of creation.

    Raises:
        UsageError: None or several; names the nearest and what there is.
    """
    if not rows:
        raise UsageError(f"study '{text}': storage {where} has no studies; start one with `tune run`")
    exact = [row for row in rows if text in (row.name, str(row.optuna_id))]
    layer = [row for row in rows if row.layer in (text, f"{DEFAULT_NETWORK}/{text}")]
    if exact or layer:
        return (exact or layer)[-1]
    started = [row for row in rows if row.name.startswith(text)] if text else []
    if len(started) == 1:
        return started[0]
    if started:
        raise UsageError(f"study '{text}' could be {_listed(started)}; give more of its name")
    near = difflib.get_close_matches(text, [row.name for row in rows], n=1, cutoff=0.0)[0]
    raise UsageError(f"study '{text}' is not in {where}; did you mean '{near}'? there are: {_listed(rows)}")


def _listed(rows: Sequence[StudyRow]) -> str:
    names = [f"'{row.name}'" for row in rows[::-1][:_LISTED]]
    more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
    return ", ".join(names) + more
