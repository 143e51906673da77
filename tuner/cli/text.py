"""Numbers and tables as people read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

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


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = ()) -> None:
    """Print a table; columns named in ``left`` are aligned left, the others right."""
    from rich import box
    from rich.table import Table

    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        grid.add_column(name, justify="left" if name in left else "right", overflow="fold", no_wrap=name not in left)
    for row in rows:
        grid.add_row(*row)
    console().print(grid)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def echo_wrapped(text: str, indent: int = 2) -> None:
    """Print a paragraph, 80 columns wide, its further lines indented; words are never broken."""
    import textwrap

    further = " " * indent
    click.echo(textwrap.fill(text, 80, subsequent_indent=further, break_long_words=False, break_on_hyphens=False))


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
