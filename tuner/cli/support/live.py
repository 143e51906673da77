"""What a run shows while it works: a live bar on a terminal, one rewritten line in a notebook, lines in a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from tuner.cli.support.folding import echo
from tuner.cli.support.text import gigaflops, milliseconds, percent, times
from tuner.processes import stages
from tuner.results import Result
from tuner.tuning.progress import Observer, Progress, tell_doing

if TYPE_CHECKING:
    from rich.console import Group

PLAIN_EVERY = 10.0  # seconds between two lines without a gain
NOTEBOOK_EVERY = 0.3
LINE = 100  # most columns of a notebook's line
BAR = 24  # columns of the bar


def headline(progress: Progress) -> str:
    """Return the best so far in one line: time, speed-up over naive, GFLOP/s, share of the roofline."""
    best = progress.best
    if best is None:
        return "no verified trial yet"
    share = progress.share_of_floor(best)
    parts = (
        f"best {milliseconds(best.seconds)} ms",
        f"{times(progress.naive / best.seconds)} naive" if progress.naive else "",
        f"{gigaflops(progress.problem.flop, best.seconds)} GFLOP/s",
        f"{percent(share)} of the roofline" if share is not None else "",
    )
    return ", ".join(filter(None, parts))


def failures(progress: Progress) -> str:
    """Return the failures by kind, or nothing."""
    bad = {kind: count for kind, count in progress.outcomes.items() if kind != "ok" and count}
    return ", ".join(f"{count} {kind}" for kind, count in sorted(bad.items()))


def counts(progress: Progress, elapsed: float) -> str:
    """Return how far a run is: seconds, trials and trials a second, compilations in flight, failures."""
    searching = (progress.searched or elapsed) - progress.begun
    parts = (
        f"{elapsed:.0f} of {progress.seconds:.0f} s" if progress.seconds else f"{elapsed:.0f} s",
        f"{progress.done:,} of {progress.trials:,} trials" if progress.trials else f"{progress.done:,} trials",
        f"{progress.done / searching:.1f} a second" if progress.done and searching > 0 else "",
        f"{progress.compiling} compiling" if progress.compiling else "",
        failures(progress),
    )
    return ", ".join(filter(None, parts))


def share_done(progress: Progress, elapsed: float) -> float:
    """Return how much of a run's budget is spent, at most 1."""
    spent = progress.done / progress.trials if progress.trials else 0.0
    return min(1.0, max(spent, elapsed / progress.seconds if progress.seconds else 0.0))


class Watch:
    """A run's clock, which also advances between trials."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def set(self, elapsed: float) -> None:
        self._began = time.monotonic() - elapsed

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began


class PlainObserver(Observer):
    """Prints a line at each gain, or after ten seconds without one."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._best, self._shown = quiet, float("inf"), float("-inf")

    def says(self, line: str) -> None:
        echo(line, err=self._quiet)

    def trial(self, result: Result, progress: Progress) -> None:
        if self._quiet:
            return
        better = progress.best is not None and progress.best.seconds < self._best
        if not better and progress.elapsed - self._shown < PLAIN_EVERY:
            return
        self._shown = progress.elapsed
        if progress.best:
            self._best = progress.best.seconds
        bad = failures(progress)
        echo(f"[{progress.elapsed:5.0f} s] trial {progress.done}: {headline(progress)}{bad and '; ' + bad}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        return


class LiveObserver(Observer):
    """Live lines at the bottom of the terminal: the best so far, a bar, and what the run is doing."""

    def __init__(self, *, stderr: bool = False) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        self._watch, self._progress, self._doing = Watch(), None, "starting"
        self._spinner = Spinner("dots")
        self._live = Live(
            console=Console(highlight=False, stderr=stderr),
            transient=True,
            get_renderable=self._lines,
            refresh_per_second=8,
        )

    _progress: Progress | None

    def says(self, line: str) -> None:
        self._live.console.print(line, markup=False)

    def doing(self, what: str) -> None:
        self._doing = what

    def trial(self, result: Result, progress: Progress) -> None:
        self._watch.set(progress.elapsed)
        self._progress, self._doing = progress, ""

    def _lines(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress, elapsed, lines = self._progress, self._watch.elapsed, list[Any]()
        if progress is not None:
            bar = Table.grid(padding=(0, 1))
            done = ProgressBar(total=1.0, completed=share_done(progress, elapsed), width=BAR)
            bar.add_row(done, Text(counts(progress, elapsed)))
            lines += [Text(headline(progress), style="bold green" if progress.best else ""), bar]
        if self._doing:
            stage = "" if progress else "preparing: "
            self._spinner.update(text=Text(f"{stage}{self._doing}" + ("" if progress else f", {elapsed:.0f} s")))
            lines.append(self._spinner)
        return Group(*lines)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._live.stop()


class NotebookObserver(Observer):
    """One line that is rewritten in place, since a notebook keeps every other line."""

    def __init__(self) -> None:
        self._watch, self._shown = Watch(), float("-inf")

    def says(self, line: str) -> None:
        self._write("")
        echo(line)

    def doing(self, what: str) -> None:
        self._write(f"{what} ...")

    def trial(self, result: Result, progress: Progress) -> None:
        self._watch.set(progress.elapsed)
        if progress.elapsed - self._shown >= NOTEBOOK_EVERY:
            self._shown = progress.elapsed
            self._write(f"{headline(progress)}; {counts(progress, progress.elapsed)}")

    def _write(self, line: str) -> None:
        click.echo(f"\r{line[:LINE]:<{LINE}}\r{line[:LINE]}", nl=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._write("")


def in_notebook() -> bool:
    """Whether output goes to a notebook's cell, of this process's kernel or of the one that started it."""
    asked = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = asked() if asked else None
    return type(shell).__name__ == "ZMQInteractiveShell" or "JPY_PARENT_PID" in os.environ


def observer(*, to_stderr: bool) -> PlainObserver | LiveObserver | NotebookObserver:
    """Return the observer for this output; with ``to_stderr``, for JSON, only news, on standard error."""
    if to_stderr:
        return PlainObserver(quiet=True)
    if in_notebook():
        return NotebookObserver()
    return LiveObserver() if sys.stdout.isatty() else PlainObserver()


class Silent(Observer):
    """Shows nothing, for ``--quiet``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        return


class Headed(Observer):
    """Prints its first line once the device is open, so that a run that cannot start prints only an error."""

    def __init__(self, line: str, watcher: Observer) -> None:
        self._line, self._watcher = line, watcher

    def _say_line(self) -> None:
        line, self._line = self._line, ""
        if line:
            self._watcher.says(line)

    def says(self, line: str) -> None:
        self._say_line()
        self._watcher.says(line)

    def doing(self, what: str) -> None:
        if what != stages.OPENING:
            self._say_line()
        tell_doing(self._watcher, what)

    def trial(self, result: Result, progress: Progress) -> None:
        self._say_line()
        self._watcher.trial(result, progress)


@contextmanager
def watching() -> Iterator[Observer]:
    """Watch a run started from Python: in a notebook, or live on a terminal beside the program's output; else not."""
    chosen: AbstractContextManager[Observer] = Silent()
    if in_notebook():
        chosen = NotebookObserver()
    elif sys.stderr.isatty():
        chosen = LiveObserver(stderr=True)
    with chosen as watcher:
        yield watcher
