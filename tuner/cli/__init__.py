"""The command line: parse, call, print. Each file here is the command of that name; what they share is in support.

Heavy imports are inside the functions that need them, so that help and completion are fast.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from tuner.cli import (
    best,
    cache,
    compare,
    completion,
    dashboard,
    delete,
    doctor,
    export,
    help,
    layers,
    merge,
    record,
    rename,
    replay,
    run,
    show,
    simulate,
    templates,
    verify,
)
from tuner.cli import list as listing
from tuner.cli.support.failing import (
    NO_FOLDER,
    cannot_be_written,
    debugged,
    is_folder_gone,
    line_of,
    output_is_gone,
    silence,
)
from tuner.cli.support.folding import folded, is_terminal, width
from tuner.cli.support.pipes import outlet
from tuner.cli.support.signals import INTERRUPTED, like_ctrl_c
from tuner.cli.support.text import coloured
from tuner.errors import TunerError, UsageError
from tuner.passwords import hidden


class _Commands(click.Group):
    """The commands in the order in which they are needed; for an unknown name a similar one is suggested."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return [*self.commands]  # `list` is a command here

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0].lower()
        if name not in self.commands and not name.startswith("-"):
            from tuner.suggestions import alternatives

            raise UsageError(f"command '{args[0]}' is unknown; {alternatives(name, [*self.commands])}")
        return super().resolve_command(context, [name, *args[1:]])


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(None, "-V", "--version", package_name="tuner", message="tune %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Find the fastest correct configuration of a GPU kernel, and prove it.

    \b
    tune run conv2              tune a problem
    tune show conv2             what was found
    tune export conv2 -o f.h    the winner as a header
    tune help run               a command's options
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _each in (
    *(run, listing, show, best, export, dashboard, replay),
    *(rename, delete, merge, compare),
    *(simulate, record),
    *(layers, templates),
    *(doctor, verify, cache),
    *(help, completion),
):
    cli.add_command(_each.command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 usage, 130 interrupted; every error is one line."""
    sys.stdout, sys.stderr = outlet(sys.stdout), outlet(sys.stderr)
    code = _run(arguments)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError):  # a full disk has been told already
                stream.flush()
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    logging.getLogger("sqlalchemy.pool").setLevel(
        logging.CRITICAL
    )  # a second Ctrl-C may arrive while a connection closes
    try:
        with like_ctrl_c(), debugged():
            code = cli.main(args=arguments, prog_name="tune", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        if is_folder_gone():
            return _fail(NO_FOLDER, 1)
        hint = f"; see {error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        return _fail(error.format_message().replace("\n", " ").rstrip(".") + hint, error.exit_code)
    except TunerError as error:
        return _fail(NO_FOLDER, 1) if is_folder_gone() else _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted; what was finished is in the store", INTERRUPTED)
    except (Exception, SystemExit) as error:
        return _unforeseen(error)


def _unforeseen(error: Exception | SystemExit) -> int:
    """Return the exit code of an unexpected error: 0 if only the reader of the output has gone.

    Raises:
        SystemExit: The exit was intended.
    """
    gone = output_is_gone(error)
    if isinstance(error, SystemExit) and not gone:
        raise error
    if gone or cannot_be_written(error):
        silence()
    return 0 if gone or isinstance(error, SystemExit) else _fail(line_of(error), 1)


def _fail(message: str, code: int) -> int:
    said = f"tune: {hidden(message)}"
    if is_terminal(sys.stderr):
        said = folded(said, width(sys.stderr))
    with suppress(OSError):  # standard error may be closed
        click.echo(click.style(said, fg="red") if coloured(sys.stderr) else said, err=True)
    return code
