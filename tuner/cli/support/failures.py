"""The trials that failed, as a run tells them: each kind once, with how many more there are like it."""

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

MOST = 6  # kinds told; the others are in the store
NUMBER = re.compile(r"(?<!\w)-?(\d+([.,]\d+)*(e[+-]?\d+)?|nan\b|inf\b)|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Failures that differ in numbers alone.

    Attributes:
        first: The one that stands for them.
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
    """Print which trials failed and why, each kind once; nothing where none did."""
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
    """Print a kind in one paragraph; the line of a user's source that does not compile stands in it as it is."""
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
