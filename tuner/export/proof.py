"""What a header's text is worth is seen by running that text: its own kernel, by its own grid, compiled by itself."""

from __future__ import annotations

import re

from tuner.bench.protocol import ragged_rows
from tuner.errors import TunerError
from tuner.export.geometry import find_geometry
from tuner.export.winner import Winner
from tuner.kernels.limits import OPENCL, Dialect
from tuner.kernels.render import Rendered
from tuner.tuning.evaluation import Prepared

LAUNCHES = 30  # more than a trial's at least, each of them checked
_STRING = re.compile(r'^    "(.*)\\n"$', re.MULTILINE)
_ESCAPE = re.compile(r"\\(.)")
_OF_HEADER = re.compile(r'^#include ".*"$', re.MULTILINE)
_INCLUDE = re.compile(r"^\s*(?:#|%:|\?\?=)\s*(?:include|include_next|import|embed)\b\s*(.*)")
_ANYWHERE = re.compile(r"<(?!/)(?!.*\.\.)[^>]+>")  # of nvcc's own, on every machine
_JOINED = re.compile(r"\\\n|/\*.*?\*/", re.DOTALL)
_COMMENT = re.compile(r"^//.*\n?", re.MULTILINE)


def source_of(winner: Winner, header: str, beside: str) -> str:
    """Return what a user's compiler gets: the header, with the file beside it if the kernel lies there.

    Raises:
        TunerError: Something is still to be included, so the text would not be all there is.
    """
    text = header
    if winner.dialect == OPENCL:
        lines = header.partition(f"{winner.prefix.lower()}_source[] =")[2].partition("\n    ;\n")[0]
        text = "\n".join(_ESCAPE.sub(_unescaped, line) for line in _STRING.findall(lines)) + "\n"
    elif beside:
        text = header + _OF_HEADER.sub("", beside, count=1)
    if left := left_over(text, winner.dialect):
        raise TunerError(
            f"export {winner.study}: the kernel includes {left}, which no header can hold; "
            'write #include "FILE" in the template'
        )
    return text


def left_over(text: str, dialect: Dialect) -> str:
    """Return what a text still includes of this machine's files, as it stands there; empty if nothing."""
    for line in _JOINED.sub("", text).split("\n"):
        match = _INCLUDE.match(line)
        if match and (dialect == OPENCL or not _ANYWHERE.match(match[1])):
            return match[1].strip()
    return ""


def _unescaped(match: re.Match[str]) -> str:
    return {"t": "\t"}.get(match[1], match[1])


def code_of(text: str) -> str:
    """Return a text without its lines of comment."""
    return _COMMENT.sub("", text)


def prepared_text(winner: Winner, source: str) -> Prepared:
    """Return a header's text with the launches of its own batch and, where its grid follows, of three others."""
    geometry = find_geometry(winner.template, winner.result.configuration, winner.problem)
    launches = tuple((B, geometry.at(B)) for B in ragged_rows(winner.problem.rows)) if geometry.rules else ()
    rendered = Rendered(
        source=source,
        launch=geometry.at(winner.problem.rows),
        entry=winner.entry,
        magnitudes=winner.template.magnitudes_of(winner.result.configuration),
        static_memory=winner.template.static_memory,
    )
    return Prepared(rendered=rendered, confirm=launches)
