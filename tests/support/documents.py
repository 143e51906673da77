"""The documents a reader is given: their blocks, the commands in them, their links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
WRITTEN = [README, ROOT / "CONTRIBUTING.md", *DOCS, ROOT / "kernel_templates" / "README.md"]
CHANGELOG = ROOT / "CHANGELOG.md"
DOCUMENTS = [*WRITTEN, CHANGELOG, ROOT / "studies" / "README.md"]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def text(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def blocks(document: Path, language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return [block for kind, block in _BLOCK.findall(text(document)) if kind == language]


def prose(document: Path) -> str:
    """Return a document without its fenced blocks."""
    return _BLOCK.sub("", text(document))


def command_lines(document: Path) -> list[list[str]]:
    """Return the lines of the blocks of commands, as words; comments are left out."""
    lines = "\n".join(blocks(document, "sh")).splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def inline_commands(document: Path) -> list[list[str]]:
    """Return the commands that stand in a sentence or a table, as words."""
    return [shlex.split(found) for found in re.findall(r"`(tune [^`]*)`", prose(document))]


def anchors(document: Path) -> set[str]:
    """Return the names by which GitHub lets a link reach each heading."""
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(document: Path) -> list[tuple[Path, str]]:
    """Return the file and the heading that each link to this repository leads to."""
    found = re.findall(r"\]\((?!\w+:)([^)#]*)#?([^)]*)\)", prose(document))
    return [((document.parent / file).resolve() if file else document, heading) for file, heading in found]
