"""Bar charts for a terminal and for a file; both draw the same bars."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tuner.files import write_whole

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
    """Draw bars as lines of at most ``width`` characters; the longest fills its column, lengths are to an eighth."""
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
_ROW, _BAR, _LABELS, _TEXTS, _BARS, _HEAD = 24, 16, 220, 110, 520, 56


def bar_svg(title: str, subtitle: str, bars: Sequence[Bar]) -> str:
    """Draw bars as an SVG document: label, bar with its interval, text; a line runs down from the floor's end."""
    width, height = _LABELS + _BARS + _TEXTS, _HEAD + _ROW * len(bars) + 8
    longest = max((max((bar.value, *(bar.interval or ()))) for bar in bars), default=1.0)
    scale = _BARS / longest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="8" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="8" y="40" fill="#555">{escape(subtitle)}</text>',
        *(_svg_row(bar, _HEAD + _ROW * place, scale) for place, bar in enumerate(bars)),
        *(_svg_floor(bar, scale, height) for bar in bars if bar.kind == "floor"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _svg_row(bar: Bar, top: int, scale: float) -> str:
    length, middle = bar.value * scale, top + _BAR // 2
    whisker = ""
    if bar.interval:
        low, high = (_LABELS + end * scale for end in bar.interval)
        whisker = f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" stroke="black" stroke-width="2"/>'
    end = _LABELS + max(length, (bar.interval[1] if bar.interval else 0.0) * scale) + 6
    return (
        f'<text x="{_LABELS - 8}" y="{top + 13}" text-anchor="end">{escape(bar.label)}</text>'
        f'<rect x="{_LABELS}" y="{top}" width="{length:.1f}" height="{_BAR}" fill="{_COLOURS[bar.kind]}"/>'
        f'{whisker}<text x="{end:.1f}" y="{top + 13}">{escape(bar.text)}</text>'
    )


def _svg_floor(bar: Bar, scale: float, height: int) -> str:
    x = _LABELS + bar.value * scale
    return (
        f'<line x1="{x:.1f}" y1="{_HEAD - 4}" x2="{x:.1f}" y2="{height - 4}" stroke="#8a8a8a" stroke-dasharray="4 3"/>'
    )


def write_png(path: Path, title: str, subtitle: str, bars: Sequence[Bar]) -> None:
    """Draw the same bars by matplotlib, which must be installed."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.3 * len(bars)))
    for place, bar in enumerate(reversed(bars)):
        low, high = bar.interval or (bar.value, bar.value)
        reach = [[1e3 * (bar.value - low)], [1e3 * (high - bar.value)]]
        axes.barh(place, 1e3 * bar.value, color=_COLOURS[bar.kind], xerr=reach)
        axes.text(1e3 * high, place, f" {bar.text}", va="center")
    axes.set_yticks(range(len(bars)), [bar.label for bar in reversed(bars)])
    axes.set_xlabel("ms")
    axes.set_title(f"{title}\n{subtitle}", fontsize=9)
    axes.margins(x=0.15)
    figure.tight_layout()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    write_whole(path, drawn.getvalue())
