"""``tune layers``: the layers by name."""

from __future__ import annotations

import click

from tuner.cli.support import options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import print_json, table


@click.command("layers", short_help="The layers by name.")
@options.as_json
def command(as_json: bool) -> None:
    """List the layers, with what they compute and the fewest bytes they move at B=10,000."""
    from tuner.problems.conv.layers import LAYERS

    if as_json:
        sizes = ("B", "C", "H", "W", "M", "K", "H_out", "W_out", "flop", "least_bytes")
        print_json([{"name": each.name, **{size: getattr(each, size) for size in sizes}} for each in LAYERS.values()])
        return
    rows = [
        (
            each.name,
            str(each.C),
            f"{each.H}x{each.W}",
            str(each.M),
            str(each.K),
            f"{each.H_out}x{each.W_out}",
            f"{each.flop / 1e9:.2f}",
            f"{each.least_bytes / 1e6:,.0f}",
        )
        for each in LAYERS.values()
    ]
    table("layers at B=10,000", ("name", "C", "input", "M", "K", "output", "GFLOP", "least MB"), rows, left=("name",))
    echo("\nfa17: ECE 408 (UIUC), Fall 2017; sp: Spring. conv1 and conv2 mean sp18's.")
    echo("A shape of your own: C=8,H=32,W=48,M=32,K=3")
