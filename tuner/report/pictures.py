"""Pictures in files, all drawn by matplotlib, which is an extra."""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tuner.errors import UsageError
from tuner.files import refuse_unwritable, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES: Final = (".svg", ".png")
STYLE: Final = {"svg.fonttype": "none", "svg.hashsalt": "tuner", "font.size": 10}
DPI = 120


def check_picture(path: Path, option: str = "--plot") -> None:
    """Refuse a file that could not be drawn, before any time is spent.

    Raises:
        UsageError: A suffix other than .svg or .png, a place that cannot be written, or matplotlib is not installed.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{option} {path}: '{path.suffix}' is not a kind of plot; give a .svg or .png file")
    refuse_unwritable(path, option)
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            f"{option} {path}: drawing needs matplotlib, which is not installed; pip install 'tuner[plot]'"
        )


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches; it needs no display and leaves matplotlib's settings alone."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it logs where it keeps fonts
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def write_picture(path: Path, figure: Figure) -> None:
    """Write a figure in the format of the file's suffix; in an SVG, text stays text.

    Raises:
        OSError: The file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a name may have dollar signs
    drawn, kind = io.BytesIO(), path.suffix.removeprefix(".")
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of characters that its own font lacks
        figure.savefig(drawn, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else None)
    write_whole(path, drawn.getvalue())
