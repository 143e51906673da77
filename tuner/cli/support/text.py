"""Numbers and tables for people to read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from tuner.cli.support.folding import echo_wrapped, fitting, folded, width

if TYPE_CHECKING:
    from rich.console import Console

    from tuner.results import Result


__all__ = [
    "coloured",
    "echo_wrapped",
    "gigaflops",
    "milliseconds",
    "percent",
    "plural",
    "print_json",
    "rate",
    "spread",
    "table",
    "times",
    "width",
]


def milliseconds(seconds: float) -> str:
    """Return a time in ms with four significant digits: ``0.6421``, ``12.34``."""
    ms = seconds * 1e3
    return f"{ms:.4f}" if ms < 1 else f"{ms:.3f}" if ms < 10 else f"{ms:.2f}" if ms < 100 else f"{ms:.1f}"


def spread(result: Result) -> str:
    return result.measurement.spread_text if result.measurement else ""


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1f}x"


def gigaflops(flop: int, seconds: float) -> str:
    rate = flop / seconds / 1e9
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def rate(value: float | None, unit: str) -> str:
    """Return a rate in tera or giga: ``3.21 TB/s``."""
    if not value:
        return "-"
    scale, letter = (1e12, "T") if value >= 1e12 else (1e9, "G")
    return f"{value / scale:.3g} {letter}{unit}"


def console(least: int) -> Console:
    """Return a console on standard output, as wide as the terminal (80 columns without one) or the content."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, width=max(width(), least))


def coloured(stream: TextIO | None) -> bool:
    """Whether to colour a stream: it is a terminal, and neither NO_COLOR nor TERM forbids it."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and stream is not None and stream.isatty()


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Sequence[str] = (),
    spare: Sequence[str] | None = None,
) -> None:
    """Print a table; the winner's row is green.

    Args:
        left: Columns that are aligned left; the others are right.
        spare: Columns to leave out, in this order, if the terminal is too narrow; default: all but the first two, from
            the right.
    """
    from rich import box
    from rich.table import Table

    rows = [tuple(row) for row in rows]
    named = columns[:1:-1] if spare is None else spare
    gap, widths = fitting(list(zip(columns, *rows, strict=True)), width(), [columns.index(name) for name in named])
    grid = Table(
        title=folded(title, width()),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1) if gap > 1 else (0, 0),
    )
    for place, wide in widths.items():
        name = columns[place]
        grid.add_column(name, justify="left" if name in left else "right", overflow="fold", width=wide)
    for row in rows:
        grid.add_row(*(row[place] for place in widths), style="green" if row and row[0].startswith("*") else "")
    console(sum(widths.values()) + gap * len(widths)).print(grid)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
