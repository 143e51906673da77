"""``tune help``: the same as ``--help``, also for a command."""

from __future__ import annotations

from typing import cast

import click


@click.command("help", short_help="This help, or that of a command.")
@click.argument("command", required=False)
@click.pass_context
def command(context: click.Context, command: str | None) -> None:
    """Print this help, or a command's."""
    root = context.find_root()
    if command is None:
        click.echo(root.get_help())
        return
    name, found, _ = cast(click.Group, root.command).resolve_command(root, [command])
    if found is not None:
        click.echo(found.get_help(click.Context(found, info_name=name, parent=root)))
