"""Which study a user means."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.errors import UsageError
from tuner.layers import find_layer, full_name
from tuner.nearest import alternatives, listed
from tuner.storage.models import StudyRow


def pick_study(text: str, rows: Sequence[StudyRow], where: str) -> StudyRow:
    """Pick by exact name, Optuna's id, layer (newest), or the start of one name; ``rows`` are in order of creation.

    A layer is named as in ``tune run``, or as a study of it begins: ``conv2``, ``C=8,H=9,M=3,K=3``, ``C8H9W9M3K3``.

    Raises:
        UsageError: None or several; names a near one, or what there is.
    """
    if not rows:
        raise UsageError(f"study '{text}': storage {where} has no studies; start one with `tune run`")
    exact = [row for row in rows if text in (row.name, str(row.optuna_id))]
    layer = [row for row in rows if _is_of(row, text)]
    if exact or layer:
        return (exact or layer)[-1]
    started = [row for row in rows if row.name.startswith(text)] if text else []
    if len(started) == 1:
        return started[0]
    if started:
        raise UsageError(f"study '{text}' could be {listed(_names(started))}; give more of its name")
    layers = dict.fromkeys(name for row in rows for name in (row.layer, row.layer.rpartition("/")[2]))
    raise UsageError(f"study '{text}' is not in {where}; {alternatives(text, _names(rows), list(layers))}")


def _is_of(row: StudyRow, text: str) -> bool:
    """Whether a text names the row's layer, and its batch if it says one."""
    if "=" not in text:
        return row.layer in (text, full_name(text))
    layer = find_layer(text)
    return row.layer == layer.name and ("B=" not in text or row.B == layer.B)


def _names(rows: Sequence[StudyRow]) -> list[str]:
    """Return the studies' names, the newest first."""
    return [row.name for row in rows[::-1]]
