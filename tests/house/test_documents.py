"""The documents: short, linked, in plain words, and true about the files and messages that they name."""

from __future__ import annotations

import ast
import re

import pytest
from documents import DOCS, DOCUMENTS, README, ROOT, WRITTEN, anchors, links, name, prose, text

from tuner.cli import cli

OLD_WORDS = "mend|mends|mended|anew|in vain|whoever|what became of|amid|kin"
EACH = pytest.mark.parametrize("document", DOCUMENTS, ids=name)
EACH_WRITTEN = pytest.mark.parametrize("document", WRITTEN, ids=name)


def test_readme_is_short_and_leads_to_every_document():
    assert len(text(README).splitlines()) <= 130
    there = {file for file, _ in links(README)}
    assert [name(each) for each in DOCUMENTS if each not in there and each != README] == []


def test_commands_are_all_in_the_document_of_commands():
    page = text(ROOT / "docs" / "commands.md")
    assert [each for each in cli.commands if f"`tune {each}" not in page] == []


@EACH
def test_links_lead_to_files_and_headings_that_there_are(document):
    for file, heading in links(document):
        assert file.exists(), file
        assert not heading or heading in anchors(file), f"{name(file)}#{heading}"


@EACH_WRITTEN
def test_files_that_are_named_exist(document):
    named = re.findall(
        r"\b(?:tests|tuner|docs|kernel_templates)/[\w./-]*\w(?:\.(?:py|md|sh|cu|h)\b|/(?=`))", text(document)
    )
    assert [each for each in named if not (ROOT / each).exists()] == []


@EACH_WRITTEN
def test_words_are_those_of_today(document):
    assert re.findall(rf"\b(?:{OLD_WORDS})\b", text(document), re.IGNORECASE) == []


def test_messages_of_the_faq_are_those_of_the_program():
    """Those that no command can be made to print here; ``...`` stands for what differs."""
    faq = next(each for each in DOCS if each.name == "faq.md")
    headings = re.findall(r"^\*\*(.*)\*\*", prose(faq), re.MULTILINE)
    messages = [message for heading in headings for message in re.findall(r"`([^`]*)`", heading)]
    assert len(messages) >= 10
    said = _texts_of_the_program()
    for message in messages:
        parts = [part.strip(" :") for part in re.split(r"\.\.\.|'|\bN\b|: ", message) if len(part) > 3]
        assert parts, message
        for part in parts:
            assert any(part in each for each in said), f"{message}: nothing prints '{part}'"


def _texts_of_the_program() -> list[str]:
    """Return every text in the sources, what is put in at run time as ``...``."""
    found = []
    for file in (ROOT / "tuner").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(str(p.value) if isinstance(p, ast.Constant) else "..." for p in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found
