"""A compiler's messages about a user's own kernel: place, message, line and caret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MARK = re.compile(r'#line (\d+) "(.*)"')
_CLANG = re.compile(  # PoCL's is "error: mine.cu:7:30 <Spelling=...>: message", others' "mine.cu:7:30: error: message"
    r"(?:error: )?(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+)"
    r"(?: <Spelling=(?P<argument>.*?):(?P<argument_line>\d+):(?P<argument_column>\d+)>)?: "
    r"(?:(?P<kind>fatal error|error|warning|note|remark): )?(?P<says>.*)"
)
_EDG = re.compile(r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<kind>\w+)(?: #[\w-]+)?: (?P<says>.*)")
_SHOWN = re.compile(r"[^\s:][^:]*:\d+(:\d+)?: error: ")  # how a Diagnostic begins
MOST = 20  # most errors kept: the first ones are the cause


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error: its place, its message, and the column if known."""

    file: str
    line: int
    column: int | None
    says: str

    def __str__(self) -> str:
        column = "" if self.column is None else f":{self.column}"
        return f"{self.file}:{self.line}{column}: error: {self.says}"

    def shown(self, lines: dict[tuple[str, int], str]) -> str:
        """Return the error with its line below, and a caret below that."""
        text = lines.get((self.file, self.line))
        if text is None or not text.strip():
            return str(self)
        if self.column is None:
            return f"{self}\n{text}"
        before = re.sub(r"[^\t]", " ", text[: self.column - 1])
        return f"{self}\n{text}\n{before}^"


def readable(log: str, source: str) -> tuple[str, str] | None:
    """Return a message and the full text of a compiler's log, or None if it names no line of the user's files.

    Args:
        source: The compiled text; its ``#line`` directives tell which file each line is from.
    """
    lines = _lines_by_place(source)
    errors = list(dict.fromkeys(_errors(log, lines)))[:MOST]
    if not errors:
        return None
    return str(errors[0]), "\n".join(error.shown(lines) for error in errors)


def excerpt(text: str) -> tuple[str, ...]:
    """Return the user's line with the caret below it from the first error of a text; empty if there is none."""
    said = text.splitlines()[:3]
    if not said or not _SHOWN.match(said[0]):
        return ()
    if len(said) > 2 and said[2].strip() == "^":
        return said[1], said[2]
    return tuple(line for line in said[1:2] if not _SHOWN.match(line))


def _lines_by_place(source: str) -> dict[tuple[str, int], str]:
    """Return the text of each line that ``#line`` names, by its file and number."""
    lines: dict[tuple[str, int], str] = {}
    file, number = "", 0
    for line in source.split("\n"):
        if match := _MARK.fullmatch(line):
            file, number = match[2], int(match[1])
        elif file:
            lines[file, number] = line
            number += 1
    return lines


def _errors(log: str, lines: dict[tuple[str, int], str]) -> Iterator[Diagnostic]:
    files = {file for file, _ in lines}
    said = log.splitlines()
    for at, line in enumerate(said):
        if (match := _CLANG.fullmatch(line.strip())) and match["file"] in files:
            if (match["kind"] or "error").endswith("error"):
                part = (
                    "argument" if match["argument"] in files else "file"
                )  # the error is in a macro that the user's line calls
                line_name, column_name = ("line", "column") if part == "file" else (f"{part}_line", f"{part}_column")
                yield Diagnostic(match[part], int(match[line_name]), int(match[column_name]), match["says"])
        elif (match := _EDG.fullmatch(line.strip())) and match["file"] in files and match["kind"] == "error":
            text = lines.get((match["file"], int(match["line"])), "")
            column = _column(text, *said[at + 1 : at + 3]) if len(said) > at + 2 else None
            yield Diagnostic(match["file"], int(match["line"]), column, match["says"])


def _column(text: str, printed: str, caret: str) -> int | None:
    """Return the column of nvcc's caret, which stands below the line as nvcc spaces it."""
    if caret.strip() != "^" or "".join(printed.split()) != "".join(text.split()):
        return None
    before = len("".join(printed[: caret.index("^")].split()))
    letters = [column for column, letter in enumerate(text, start=1) if not letter.isspace()]
    return letters[before] if before < len(letters) else None
