"""``tune cache``: the compiled binaries on this machine."""

from __future__ import annotations

import click

from tuner.cli.support.folding import echo


@click.command("cache", short_help="Show the compile cache, or clear it.")
@click.option("--clear", is_flag=True, help="Delete every compiled binary.")
def command(clear: bool) -> None:
    """Show the compile cache, or clear it."""
    from tuner.devices.cache import CompileCache

    store = CompileCache.default()
    if clear:
        echo(f"deleted {store.trim(0)} binaries from {store.folder}")
        return
    use = store.use()
    echo(f"{use.folder}: {use.entries} binaries, {use.nbytes / 1e6:.1f} MB of at most {store.limit_bytes / 1e6:.0f} MB")
