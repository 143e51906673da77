"""What a run shows while it works: a live bar on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import click

from tuner.cli.text import gigaflops, milliseconds, percent, times
from tuner.results import Result
from tuner.tuning.progress import Observer, Progress

PLAIN_EVERY = 10.0  # seconds


def headline(progress: Progress) -> str:
    """Return the best so far in one line: time, speed-up over naive, GFLOP/s, share of the floor."""
    best = progress.best
    if best is None:
        return "no verified trial yet"
    speedup = times(progress.naive / best.seconds if progress.naive else None)
    share = percent(progress.share_of_floor(best))
    flops = gigaflops(progress.layer.flop, best.seconds)
    return f"best {milliseconds(best.seconds)} ms, {speedup} naive, {flops} GFLOP/s, {share} of the floor"


def failures(progress: Progress) -> str:
    """Return the failures by kind, or nothing."""
    bad = {kind: count for kind, count in progress.outcomes.items() if kind != "ok"}
    return ", ".join(f"{count} {kind}" for kind, count in sorted(bad.items()))


class PlainObserver(Observer):
    """Prints a line at each gain, and one when there was none for ten seconds."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._best, self._shown = quiet, float("inf"), float("-inf")

    def says(self, line: str) -> None:
        click.echo(line, err=self._quiet)

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
        click.echo(f"[{progress.elapsed:5.0f} s] trial {progress.done}: {headline(progress)}{bad and '; ' + bad}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        return


class LiveObserver(Observer):
    """Two lines that stay at the bottom: the best so far, and a bar with trials, time and failures."""

    def __init__(self, *, stderr: bool = False) -> None:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.text import Text

        self._headline = Text("preparing the device: inputs, reference, ceilings", no_wrap=True)
        self._bar = Bar(BarColumn(bar_width=24), TextColumn("{task.description}"))
        self._task = self._bar.add_task("", total=1.0)
        self._live = Live(
            Group(self._headline, self._bar), console=Console(highlight=False, stderr=stderr), transient=True
        )

    def says(self, line: str) -> None:
        self._live.console.print(line, soft_wrap=True, markup=False)

    def trial(self, result: Result, progress: Progress) -> None:
        done = progress.done / progress.trials if progress.trials else 0.0
        if progress.seconds:
            done = max(done, progress.elapsed / progress.seconds)
        bad = failures(progress)
        self._headline.plain = headline(progress)
        news = f"{progress.done} trials, {progress.elapsed:.0f} s{bad and ', ' + bad}"
        self._bar.update(self._task, completed=min(done, 1.0), description=news)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._live.stop()


def observer(*, quiet: bool) -> PlainObserver | LiveObserver:
    """Return the observer for this output: live on a terminal, lines in a pipe, silent on stdout for JSON."""
    return PlainObserver(quiet=quiet) if quiet or not sys.stdout.isatty() else LiveObserver()


@contextmanager
def watching() -> Iterator[Observer]:
    """Watch a run that Python called: live on a terminal, beside what the program itself prints; else silent."""
    if not sys.stderr.isatty():
        yield Observer()
        return
    with LiveObserver(stderr=True) as watcher:
        yield watcher
