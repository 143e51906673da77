"""``tune dashboard``: optuna-dashboard on the store."""

from __future__ import annotations

import click

from tuner.cli.support import options


@click.command("dashboard", short_help="optuna-dashboard on the store.")
@click.option("--port", type=int, metavar="N", help="A free one by default.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on.")
@options.storage
def command(port: int | None, host: str, storage: str) -> None:
    """Serve optuna-dashboard on the store and print its address; Ctrl-C ends it."""
    from tuner.cli.support.dashboard_server import serve

    serve(storage, host=host, port=port)
