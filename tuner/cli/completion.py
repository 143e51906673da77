"""``tune completion``: the script that switches completion on in a shell."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tuner.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TUNE_COMPLETE"


@click.command("completion", short_help="The script that completes commands in your shell.")
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
def command(shell: str | None) -> None:
    """Print the script that completes commands, options, problems and studies in your shell.

    \b
    bash    echo 'eval "$(tune completion bash)"' >> ~/.bashrc
    zsh     echo 'eval "$(tune completion zsh)"' >> ~/.zshrc
    fish    tune completion fish \\
                > ~/.config/fish/completions/tune.fish
    """
    from click.shell_completion import get_completion_class

    from tuner.suggestions import alternatives

    wanted = (shell or Path(os.environ.get("SHELL", "bash")).name).lower()
    kind = get_completion_class(wanted) if wanted in SHELLS else None
    if kind is None:
        raise UsageError(f"completion: shell '{wanted}' is unknown; {alternatives(wanted, SHELLS)}")
    root = click.get_current_context().find_root()
    click.echo(kind(root.command, {}, "tune", VARIABLE).source())
