"""Completion in the shell: the script that switches it on, and the names that it offers."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import click

from tuner.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TUNE_COMPLETE"


@click.command(short_help="The script that completes commands in your shell.")
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
def completion(shell: str | None) -> None:
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


def problems_and_studies(context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Return the names that begin like this: problems, and the studies of the store if it is a file."""
    from tuner.problems.lookup import known_names

    names = [*known_names(), *_studies(context.params.get("storage"))]
    return [name for name in names if name.casefold().startswith(start.casefold())]


def _studies(storage: str | None) -> list[str]:
    """Read the studies' names without the libraries that take a second to import; none, if that fails."""
    from tuner.cli.options import default_storage

    path = Path((storage or default_storage()).removeprefix("sqlite:///"))
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as store:
            return [name for (name,) in store.execute("SELECT name FROM tuner_study ORDER BY created DESC")]
    except (sqlite3.Error, ValueError, OSError):
        return []


COMMANDS = (completion,)
