"""Numbers and tables as people read them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

    from tuner.results import Result


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


def console() -> Console:
    """Return a console on standard output; 80 columns where there is no terminal."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def width() -> int:
    """Return the columns of the terminal; 80 where there is none."""
    import shutil

    return max(30, shutil.get_terminal_size().columns) if sys.stdout is not None and sys.stdout.isatty() else 80


def coloured(stream: TextIO | None) -> bool:
    """Tell whether a stream shows colours, and that neither NO_COLOR nor TERM asks for none."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and stream is not None and stream.isatty()


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = ()) -> None:
    """Print a table; columns named in ``left`` are aligned left, the others right; the winner's row is green."""
    from rich import box
    from rich.table import Table

    gaps = (0, 1) if width() >= 80 else (0, 0)
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=gaps)
    for name in columns:
        grid.add_column(name, justify="left" if name in left else "right", overflow="fold", no_wrap=name not in left)
    for row in rows:
        grid.add_row(*row, style="green" if row and row[0].startswith("*") else "")
    console().print(grid)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def echo_wrapped(text: str, indent: int = 2) -> None:
    """Print a paragraph as wide as the terminal, its further lines indented; words are never broken."""
    import textwrap

    further = " " * indent
    click.echo(textwrap.fill(text, width(), subsequent_indent=further, break_long_words=False, break_on_hyphens=False))


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
