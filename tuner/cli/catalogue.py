"""Commands that say what there is: layers, templates."""

from __future__ import annotations

from typing import Any

import click

from tuner.cli import options
from tuner.cli.folding import echo


@click.command(short_help="The layers by name.")
@options.as_json
def layers(as_json: bool) -> None:
    """List the layers, with what they compute and the fewest bytes they move at B=10,000."""
    from tuner.cli.text import print_json, table
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


@click.command(short_help="The kernel templates, their parameters and choices.")
@options.templates
@options.as_json
def templates(templates: tuple[str, ...], as_json: bool) -> None:
    """List the kernel templates: their idea, parameters and choices."""
    from tuner.cli.text import echo_wrapped, print_json

    chosen = options.chosen_templates(templates)
    if as_json:
        print_json([_template_json(each) for each in chosen])
        return
    for each in chosen:
        echo_wrapped(f"{each.name} ({', '.join(each.dialects)}): {each.idea}", indent=4)
        for parameter in each.parameters:
            echo_wrapped(f"    {parameter.name:<14} {' | '.join(map(str, parameter.choices))}", indent=19)
            echo_wrapped(f"{'':<19}{parameter.doc}", indent=19)
        if each.heuristics:
            echo_wrapped("    left out though it would run:", indent=8)
            for rule in each.heuristics:
                echo_wrapped(f"        {rule.name}: {rule.why}", indent=12)
        echo()


def _template_json(template: Any) -> dict[str, Any]:
    return {
        "name": template.name,
        "idea": template.idea,
        "dialects": list(template.dialects),
        "parameters": [
            {"name": each.name, "choices": list(each.choices), "doc": each.doc} for each in template.parameters
        ],
        "constraints": [{"name": each.name, "reason": each.reason} for each in template.constraints],
        "heuristics": [{"name": each.name, "reason": each.why} for each in template.heuristics],
        "baselines": [each.name for each in template.baselines],
    }


COMMANDS = (layers, templates)
