"""Best-so-far curves of replayed searches: in the terminal, as SVG, and as PNG where matplotlib is installed."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

import numpy as np

from tuner.errors import UsageError
from tuner.files import refuse_unwritable, write_whole
from tuner.recordings.scores import Curve
from tuner.search.arrays import Floats

WIDTH, HEIGHT = 760, 420  # of the drawing, in SVG units
LEFT, TOP, RIGHT, BOTTOM = 60, 40, 520, 370  # of its frame; names stand to the right of it
LEVELS: Final = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888", "#000000")
SUFFIXES: Final = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class Band:
    """Quartiles over the seeds of the best-so-far ratio, after each evaluation."""

    low: Floats
    middle: Floats
    high: Floats

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> Band:
        ratios = np.minimum(np.stack([curve.ratios for curve in curves]), LEVELS[-1])
        return cls(*np.quantile(ratios, (0.25, 0.5, 0.75), axis=0))


def draw(curves: Sequence[Curve], width: int = 60, height: int = 10) -> str:
    """Draw the median curve as text: ratio to the optimum, on a logarithmic scale, over evaluations."""
    ratios = Band.of(curves).middle
    columns = np.linspace(0, len(ratios) - 1, min(width, len(ratios))).astype(int)
    levels = np.geomspace(max(1.05, min(3.0, float(ratios[0]))), 1.0, height)
    rows = []
    for level, below in zip(levels, [*levels[1:], 0.0], strict=True):
        marks = "".join("*" if below < min(ratio, levels[0]) <= level else " " for ratio in ratios[columns])
        rows.append(f"{level:6.2f} |{marks}".rstrip())
    return "\n".join([*rows, f"{'':6} +{'-' * len(columns)}", f"{'':8}1{len(ratios):>{len(columns) - 1}} evaluations"])


def check_plot(path: Path) -> None:
    """Refuse a file that could not be drawn, before any time is spent.

    Raises:
        UsageError: Another suffix than .svg or .png, a folder that is not there, or a PNG without matplotlib.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--plot {path}: '{path.suffix}' is not a kind of plot; give a .svg or .png file")
    refuse_unwritable(path, "--plot")
    if path.suffix == ".png" and importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"--plot {path}: PNG needs matplotlib; pip install matplotlib, or give a .svg file")


def write_plot(path: Path, title: str, curves: Mapping[str, Sequence[Curve]]) -> None:
    """Draw each space's median with its quartiles into a file.

    Raises:
        UsageError: The file cannot be written, or :func:`check_plot` says so.
    """
    check_plot(path)
    bands = {name: Band.of(runs) for name, runs in curves.items()}
    try:
        if path.suffix == ".png":
            _png(path, title, bands)
        else:
            write_whole(path, svg(title, bands).encode())
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror}; give a file in a folder you may write") from None


def svg(title: str, bands: Mapping[str, Band]) -> str:
    """Return the drawing as SVG: evaluations to the right, best over optimum upwards on a logarithmic scale."""
    count = max(len(band.middle) for band in bands.values())
    top = next(level for level in LEVELS if level >= min(LEVELS[-1], _start(bands)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
    ]
    for level in (1.0, *(level for level in LEVELS if level <= top)):
        y = _y(level, top)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#dddddd"/>')
        if level not in (1.01, 1.02):
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{level:g}</text>')
    parts += [
        f'<text x="{_x(step, count):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{step}</text>'
        for step in np.linspace(0, count, 6).round().astype(int).tolist()
    ]
    parts.append(f'<text x="{(LEFT + RIGHT) // 2}" y="{HEIGHT - 10}" text-anchor="middle">evaluations</text>')
    for place, (name, band) in enumerate(bands.items()):
        parts += _series(name, band, place, (count, top))
    return "\n".join([*parts, "</svg>\n"])


def _start(bands: Mapping[str, Band]) -> float:
    """Return where the curves are worth looking at: the highest after their first few evaluations."""
    return max(float(band.high[min(2, len(band.high) - 1)]) for band in bands.values())


def _series(name: str, band: Band, place: int, reach: tuple[int, float]) -> list[str]:
    colour, y = COLOURS[place % len(COLOURS)], TOP + 16 * place
    dash = ' stroke-dasharray="5 3"' if place >= len(COLOURS) else ""
    area = _points(band.high, reach) + _points(band.low, reach)[::-1]
    return [
        f'<polygon points="{" ".join(area)}" fill="{colour}" fill-opacity="0.12"/>',
        f'<polyline points="{" ".join(_points(band.middle, reach))}" fill="none" stroke="{colour}" '
        f'stroke-width="1.5"{dash}/>',
        f'<path d="M{RIGHT + 12} {y - 4}h18" stroke="{colour}" stroke-width="2"{dash}/>',
        f'<text x="{RIGHT + 36}" y="{y}">{escape(name)}</text>',
    ]


def _points(values: Floats, reach: tuple[int, float]) -> list[str]:
    return [f"{_x(n, reach[0]):.1f},{_y(value, reach[1]):.1f}" for n, value in enumerate(values.tolist(), start=1)]


def _x(evaluations: int, count: int) -> float:
    return LEFT + (RIGHT - LEFT) * evaluations / count


def _y(ratio: float, top: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * float(np.log(min(ratio, top)) / np.log(top))


def _png(path: Path, title: str, bands: Mapping[str, Band]) -> None:
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    figure, axes = importlib.import_module("matplotlib.pyplot").subplots(figsize=(9, 5))
    for name, band in bands.items():
        evaluations = np.arange(1, len(band.middle) + 1)
        axes.plot(evaluations, band.middle, label=name)
        axes.fill_between(evaluations, band.low, band.high, alpha=0.12)
    axes.set(title=title, xlabel="evaluations", ylabel="best / optimum", yscale="log")
    axes.legend(fontsize="small")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120, bbox_inches="tight")
    write_whole(path, drawn.getvalue())
