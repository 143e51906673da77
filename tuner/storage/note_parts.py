"""A study's note has two authors: the tuner rewrites its part in each run, and what a person wrote beside it stays."""

from __future__ import annotations

import re

END = "[//]: # (each run writes what stands above anew; what you write below stays)"  # Markdown does not show it
_SENTENCE = re.compile(r"The fastest correct configuration of a \w+ kernel: ")
_OLD_END = re.compile(r"^- \*\*Export the winner:\*\*.*\n?", re.MULTILINE)
_OLD_EXPLANATION = re.compile(r"\s*## What matters, by .*?```text\n.*?```\n?", re.DOTALL)


def with_kept(ours: str, before: str) -> str:
    """Return a new note: the tuner's part, and whatever of the note before was not the tuner's."""
    above, below = _theirs(before)
    return f"{above}{ours.rstrip()}\n\n{END}\n{below}"


def _theirs(note: str) -> tuple[str, str]:
    """Return what stands above and below the tuner's part; all of a note without one is below."""
    head, found, below = note.partition(END)
    sentence = _SENTENCE.search(head)
    start = head.rfind("# ", 0, sentence.start()) if sentence else -1
    if start < 0:
        return "", f"{head}{below}".lstrip("\n") if found else note
    if found:
        return head[:start], below.removeprefix("\n")
    old = _OLD_END.search(note, start)  # before parts were told apart
    rest = note[old.end() :] if old else ""
    return note[:start], _OLD_EXPLANATION.sub("", rest, count=1).lstrip("\n")
