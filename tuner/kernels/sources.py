"""A kernel's source as one text that knows the origin of its lines."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tuner.errors import UsageError

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"]+)"')


class Source(str):
    """A text with the place of each of its lines.

    Attributes:
        places: By line: its file, relative to the folder of the first one, and its number there.
    """

    places: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, lines: list[str], places: list[tuple[str, int]]) -> Source:
        """Return the text of some lines."""
        source = cls("\n".join(lines))
        source.places = tuple(places)
        return source

    def marked(self) -> str:
        """Return the text with ``#line`` wherever a line does not follow the one before it in its file."""
        lines: list[str] = []
        expected: tuple[str, int] | None = None
        for line, (file, number) in zip(self.split("\n"), self.places, strict=True):
            if expected != (file, number):
                lines.append(f'#line {number} "{file}"')
            lines.append(line)
            expected = file, number + 1
        return "\n".join(lines)


def marked(text: str) -> str:
    """Return a source with ``#line`` directives for the compiler, if its lines' places are known."""
    return text.marked() if isinstance(text, Source) else text


def placed(text: str, python: Path) -> Source:
    """Return a template's source with its places, also if it is written or extended in the .py.

    Raises:
        UsageError: The .cu beside ``python`` cannot be read.
    """
    if isinstance(text, Source):
        return text
    places = [(f"{python.stem} source", number) for number in range(1, text.count("\n") + 2)]
    beside, within = with_includes(python.with_suffix(".cu")), _text(python)
    if beside.strip() and (at := text.find(beside)) >= 0:
        first = text.count("\n", 0, at)
        places[first : first + len(beside.places)] = beside.places
    elif text.strip() and (at := within.find(text)) >= 0:
        first = within.count("\n", 0, at)
        places = [(python.name, first + number) for _, number in places]
    return Source.of(text.split("\n"), places)


def place(text: str, offset: int) -> str:
    """Return where the character at ``offset`` was written: ``mine.cu:7``."""
    line = text.count("\n", 0, offset)
    file, number = text.places[line] if isinstance(text, Source) else ("line", line + 1)
    return f"{file}:{number}"


def with_includes(path: Path, inside: tuple[Path, ...] = ()) -> Source:
    """Read a source with each file that it includes by ``#include "name"`` in its place.

    Args:
        inside: The files that include this one, the outermost first.

    Raises:
        UsageError: A file is missing or not text, or includes itself.
    """
    if path in inside:
        raise UsageError(f"source {path} includes itself; remove the circle")
    if not path.is_file():
        raise UsageError(f"source {inside[-1] if inside else path}: there is no file {path}; put it there")
    name = os.path.relpath(path, (inside[0] if inside else path).parent).replace("\\", "/").replace('"', "'")
    lines: list[str] = []
    places: list[tuple[str, int]] = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if match := _INCLUDE.match(line):
            part = with_includes(path.parent / match[1], (*inside, path))
            lines += part.split("\n")
            places += part.places
        else:
            lines.append(line)
            places.append((name, number))
    return Source.of(lines, places)


def _text(path: Path) -> str:
    """Return a file's text without a byte order mark."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"source {path}: byte {error.start} (0x{error.object[error.start]:02x}) is not UTF-8; save it as UTF-8"
        ) from None
    except OSError as error:
        raise UsageError(f"source {path}: {error.strerror}; let it be read") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(f"source {path}:{line}: a NUL byte; save it as plain text")
    return text
