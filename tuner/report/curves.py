"""Best-so-far curves of replayed searches: in the terminal, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tuner.recordings.scores import Curve
from tuner.report.pictures import new_figure
from tuner.report.text_plot import Marks, text_plot
from tuner.search.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS: Final = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
UNNAMED: Final = (1.01, 1.02)  # levels too close to 1 for a label
COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888", "#000000")


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


def curve_text(curves: Sequence[Curve], width: int = 60, height: int = 10) -> str:
    """Draw the median curve as text: ratio to the optimum, on a logarithmic scale, over evaluations."""
    ratios = Band.of(curves).middle
    columns = np.linspace(0, len(ratios) - 1, min(width, len(ratios))).astype(int)
    levels = np.geomspace(1.0, max(1.05, min(3.0, float(ratios[0]))), height)
    rows = np.searchsorted(
        levels, np.minimum(ratios[columns], levels[-1])
    )  # the lowest level that is not below the ratio
    marks = Marks(mark="*", columns=np.arange(len(columns)), rows=rows)
    lines = text_plot([marks], len(columns), [f"{level:6.2f}" for level in levels[::-1]])
    return "\n".join([*lines, f"{'':8}1{len(ratios):>{len(columns) - 1}} evaluations"])


def curve_figure(title: str, curves: Mapping[str, Sequence[Curve]]) -> Figure:
    """Draw each space's median with its quartiles: evaluations to the right, best over optimum upwards."""
    bands = {name: Band.of(runs) for name, runs in curves.items()}
    count = max(len(band.middle) for band in bands.values())
    top = next(level for level in LEVELS if level >= min(LEVELS[-1], _start(bands)))
    figure = new_figure(9, 5)
    axes = figure.subplots()
    lines = [_add(axes, band, place, top) for place, band in enumerate(bands.values())]
    axes.set(title=title, xlabel="evaluations", ylabel="best / optimum", yscale="log")
    axes.set(xlim=(0, count), ylim=(1.0, top), xticks=np.linspace(0, count, 6).round())
    levels = [1.0, *(level for level in LEVELS if level <= top)]
    axes.set_yticks(levels, ["" if level in UNNAMED else f"{level:g}" for level in levels])
    axes.set_yticks([], minor=True)
    axes.grid(axis="y", color="#dddddd")
    names = [f" {name}" for name in bands]  # matplotlib omits labels that begin with an underscore
    figure.legend(lines, names, loc="outside right upper", fontsize="small", frameon=False)
    return figure


def _start(bands: Mapping[str, Band]) -> float:
    """Return the top of the plot: the highest ratio after the first few evaluations."""
    return max(float(band.high[min(2, len(band.high) - 1)]) for band in bands.values())


def _add(axes: Any, band: Band, place: int, top: float) -> Any:
    """Draw one band and its median; return the line of the median."""
    low, middle, high = (np.minimum(values, top) for values in (band.low, band.middle, band.high))
    evaluations, colour = np.arange(1, len(middle) + 1), COLOURS[place % len(COLOURS)]
    axes.fill_between(evaluations, low, high, color=colour, alpha=0.12, linewidth=0)
    (line,) = axes.plot(evaluations, middle, color=colour, linestyle="-" if place < len(COLOURS) else "--")
    line.set(gid=f"median {place}", clip_on=False)  # not clipped where it runs along the frame
    return line
