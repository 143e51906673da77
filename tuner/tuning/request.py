"""Turn a user's request into a run's options: the one place for defaults, shared by the command and Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

from tuner.devices import check_name, resolve
from tuner.errors import UsageError
from tuner.problems.accuracy import Precision
from tuner.problems.lookup import find_problem, says_rows
from tuner.problems.problem import Problem
from tuner.search.samplers.factory import SAMPLERS
from tuner.suggestions import alternatives


def asked_problem(problem: str | Problem, batch: int | None, device: str) -> Problem:
    """Return the problem with its batch: the one given, else the one in its sizes, else one that suits the device.

    Args:
        device: A resolved device name.

    Raises:
        UsageError: No such problem, or a size is out of range.
    """
    if isinstance(problem, Problem):
        return problem if batch is None else problem.with_rows(batch)
    found = find_problem(problem, batch)
    return found if batch is not None or says_rows(problem) else found.with_rows(found.default_rows(device))


def asked_device(name: str) -> str:
    """Return a device's full name; ``auto`` is the first NVIDIA GPU, else the CPU."""
    return resolve(check_name(name))


def asked_sampler(name: str | None) -> str:
    """Return the sampler of that name; the usual one for None."""
    if name is not None and name not in SAMPLERS:
        raise UsageError(f"sampler '{name}' is unknown; {alternatives(name, SAMPLERS)}")
    return name or SAMPLERS[0]


def asked_precision(name: str) -> Precision:
    """Return the precision of that name."""
    known = get_args(Precision)
    if name not in known:
        raise UsageError(f"precision '{name}' is unknown; give one of {', '.join(known)}")
    return cast(Precision, name)


def as_words(text: str | Sequence[str]) -> Sequence[str]:
    return (text,) if isinstance(text, str) else text


def as_path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)
