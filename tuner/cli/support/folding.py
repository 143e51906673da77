"""Fold lines to the terminal's width, at words and never within one; piped output is not folded."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

import click

PIPED, LEAST = 80, 30  # columns assumed without a terminal, and the least
_SHELL_WORD = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\S)+")
WIDE_GAP = 3  # spaces between a table's columns; one if that is too wide


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def width(stream: TextIO | None = None) -> int:
    """Return the columns of the terminal behind a stream (standard output); 80 if there is none."""
    stream = stream or sys.stdout
    if not is_terminal(stream):
        return PIPED
    if (told := os.environ.get("COLUMNS", "")).isdecimal() and int(told):
        return max(LEAST, int(told))
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        found = 0
    return max(LEAST, found or PIPED)


def folded(text: str, columns: int, indent: int = 2) -> str:
    """Break each long line at words and indent what follows, less so if a word needs the room."""
    return "\n".join(_folded(line, columns, indent) for line in text.split("\n"))


def _folded(line: str, columns: int, indent: int) -> str:
    if len(line) <= columns:
        return line
    own = len(line) - len(line.lstrip())
    longest = max(map(len, line.split()), default=0)
    wanted = indent if indent >= own else own + 2
    further = max(0, min(wanted, columns - longest))
    return textwrap.fill(line, columns, subsequent_indent=" " * further, break_long_words=False, break_on_hyphens=False)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print lines, folded on a terminal and unchanged otherwise."""
    stream = sys.stderr if err else sys.stdout
    click.echo(folded(text, width(stream)) if is_terminal(stream) else text, err=err)


def echo_wrapped(text: str, indent: int = 2) -> None:
    """Print a paragraph folded to the terminal's width, or to 80 columns if piped, with indented further lines."""
    click.echo(folded(text, width(), indent))


def echo_command(line: str) -> None:
    """Print a command to copy; if too long, it is continued with the shell's backslash, but not within quotes."""
    columns = width()
    if not is_terminal(sys.stdout) or len(line) <= columns:
        click.echo(line)
        return
    first, *words = _SHELL_WORD.findall(line)
    lines = [f"  {first}"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) <= columns - 2:
            lines[-1] += f" {word}"
        else:
            lines.append(f"      {word}")
    click.echo(" \\\n".join(lines))


def fitting(cells: Sequence[Sequence[str]], columns: int, spare: Sequence[int]) -> tuple[int, dict[int, int]]:
    """Choose a table's gap between columns, the columns shown and their widths, so that no word is split.

    Args:
        cells: The cells of each column, including its name.
        spare: Columns that may be left out, in this order.
    """
    widest = [max(map(len, each)) for each in cells]
    least = [max(len(word) for cell in each for word in cell.split() or [""]) for each in cells]
    if sum(widest) + WIDE_GAP * (len(cells) - 1) <= columns:
        return WIDE_GAP, dict(enumerate(widest))
    shown, left = list(range(len(cells))), list(spare)
    gap = WIDE_GAP if sum(least) + WIDE_GAP * (len(cells) - 1) <= columns else 1
    while left and sum(least[each] for each in shown) + gap * (len(shown) - 1) > columns:
        shown.remove(left.pop(0))
    room = columns - sum(least[each] for each in shown) - gap * (len(shown) - 1)
    given = {}
    for each in sorted(shown, key=lambda place: widest[place] - least[place]):
        given[each] = least[each] + min(max(0, room), widest[each] - least[each])
        room -= given[each] - least[each]
    return gap, {each: given[each] for each in shown}
