"""``tune templates``: the kernel templates, their parameters and choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import echo_wrapped, print_json

if TYPE_CHECKING:
    from tuner.kernels.template import KernelTemplate


@click.command("templates", short_help="The kernel templates, their parameters and choices.")
@options.templates
@options.as_json
def command(templates: tuple[str, ...], as_json: bool) -> None:
    """List the kernel templates: their idea, parameters and choices."""
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


def _template_json(template: KernelTemplate) -> dict[str, Any]:
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
