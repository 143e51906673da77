"""The failed trials at the end of a run: each kind once, with the number of others like it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tuner.cli.support.folding import echo
from tuner.cli.support.text import coloured, echo_wrapped, plural
from tuner.devices.diagnostics import excerpt
from tuner.results import Result

MOST = 6  # most kinds shown; the others are in the store
NUMBER = re.compile(r"(?<!\w)-?(\d+([.,]\d+)*(e[+-]?\d+)?|nan\b|inf\b)|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Failures whose texts differ only in numbers.

    Attributes:
        first: The one that is shown for all.
    """

    first: Result
    count: int

    @property
    def message(self) -> str:
        return (self.first.text.splitlines() or [""])[0]

    @property
    def says(self) -> str:
        return f"{self.first.outcome}: {self.message or 'without a message'}"

    @property
    def which(self) -> str:
        more = f"; the same for {self.count - 1:,} more" if self.count > 1 else ""
        return f"{self.first.configuration}{more}"


def kinds_of(failed: Iterable[Result]) -> list[Kind]:
    """Return the kinds of failure, the most frequent first."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in failed:
        message = (result.text.splitlines() or [""])[0]
        found.setdefault((result.outcome, NUMBER.sub("#", message)), []).append(result)
    return sorted((Kind(first=each[0], count=len(each)) for each in found.values()), key=lambda kind: -kind.count)


def print_failures(failed: Sequence[Result]) -> None:
    """Print which trials failed and why, each kind once; nothing if none failed."""
    if not failed:
        return
    kinds = kinds_of(failed)
    line = f"{plural(len(failed), 'trial')} failed"
    echo("\n" + (click.style(line, fg="red") if coloured(sys.stdout) else line))
    for kind in kinds[:MOST]:
        _print(kind)
    if rest := kinds[MOST:]:
        count = sum(kind.count for kind in rest)
        echo(f"  and {count:,} more in {plural(len(rest), 'other way')}")


def _print(kind: Kind) -> None:
    """Print a kind as one paragraph; a line of the user's source that does not compile is quoted unchanged."""
    shown = excerpt(kind.first.text)
    if not shown:
        echo_wrapped(f"  {kind.says}; {kind.which}", indent=4)
        return
    echo_wrapped(f"  {kind.says}", indent=4)
    for line in shown:
        click.echo(f"    {line}".rstrip())
    echo_wrapped(f"    {kind.which}", indent=4)


def failures_json(failed: Iterable[Result]) -> list[dict[str, Any]]:
    """Return the kinds of failure as plain data."""
    return [
        {
            "outcome": kind.first.outcome,
            "message": kind.message,
            "trials": kind.count,
            "template": kind.first.configuration.template,
            "parameters": kind.first.configuration.as_dict(),
        }
        for kind in kinds_of(failed)
    ]
