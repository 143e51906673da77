"""Bar charts for a terminal and as a picture; both draw the same bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.report.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EIGHTHS = " ▏▎▍▌▋▊▉"
FULL = "█"
WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its label, its length, the text at its end, and what it is (``ours``, ``floor`` or another)."""

    label: str
    value: float
    text: str
    kind: str = "other"
    interval: tuple[float, float] | None = None


def bar_lines(bars: Sequence[Bar], width: int = WIDTH) -> list[str]:
    """Draw bars as lines of at most ``width`` characters; the longest fills its column; lengths are to an eighth."""
    if not bars:
        return []
    labels, texts = max(len(bar.label) for bar in bars), max(len(bar.text) for bar in bars)
    room = max(8, width - labels - texts - 2)
    longest = max(bar.value for bar in bars)
    return [f"{bar.label:<{labels}} {_blocks(bar.value / longest * room):<{room}} {bar.text:>{texts}}" for bar in bars]


def _blocks(length: float) -> str:
    eighths = max(1, round(8 * length))
    return FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip()


_COLOURS = {"ours": "#2a7f4f", "floor": "#8a8a8a", "other": "#3b6ea8"}


def bar_figure(title: str, subtitle: str, bars: Sequence[Bar]) -> Figure:
    """Draw bars of seconds in milliseconds: label, bar with its interval, text; a line down from the floor's end."""
    figure = new_figure(9, 1.2 + 0.3 * len(bars))
    axes = figure.subplots()
    for place, bar in enumerate(bars):
        low, high = bar.interval or (bar.value, bar.value)
        (drawn,) = axes.barh(place, 1e3 * bar.value, color=_COLOURS[bar.kind])
        drawn.set_gid(f"bar {place}")
        if bar.interval:
            axes.hlines(place, 1e3 * low, 1e3 * high, color="black")
        if bar.kind == "floor":
            axes.axvline(1e3 * bar.value, color=_COLOURS["floor"], linestyle="--", linewidth=1)
        axes.text(1e3 * max(high, bar.value), place, f"  {bar.text}", va="center")
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    axes.set_title(f"{title}\n{subtitle}", fontsize=9)
    axes.margins(x=0.15)
    axes.set_xlim(left=0)
    return figure
