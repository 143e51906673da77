"""``tune export``: the winner as a header, checked once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tuner.cli.support import naming, options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import echo_wrapped, milliseconds


@click.command("export", short_help="The winner as a header, checked once more.")
@naming.study()
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Header to write.")
@click.option("--split", is_flag=True, help="CUDA: the kernel in a .cu beside the header, which any compiler takes.")
@options.templates
@options.storage
def command(study: str, output: Path | None, split: bool, **rest: Any) -> None:
    """Write the verified best configuration as a self-contained header, after compiling and running it once more.

    Without -o it becomes studies/NAME_best.h.
    """
    from tuner.export.export import export_best

    done = export_best(study, output, rest["storage"], options.chosen_templates(rest["templates"]), split=split)
    naming.say_which(done.chosen)
    again = done.evaluation.measurement
    now = milliseconds(again.median) if again else "-"
    then = milliseconds(done.result.seconds)
    echo_wrapped(f"trial {done.trial}: measured {then} ms, run once more: verified, {now} ms")
    if done.change:
        echo_wrapped(done.change)
    echo(f"wrote {done.path}" + (f" and {done.path.with_suffix('.cu')}" if split else ""))
