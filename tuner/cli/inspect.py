"""Commands that look at this machine: doctor, verify, cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tuner.cli import naming, options
from tuner.cli.folding import echo
from tuner.errors import UsageError

FOUND = 25  # the column where doctor says what it found


@click.command(short_help="Devices and tools found, what is missing, and the remedy.")
@click.option("--ceilings", is_flag=True, help="Measure the device's memory and arithmetic peaks once; then show them.")
@click.option("--again", is_flag=True, help="With --ceilings: measure them again.")
@options.device
@options.as_json
def doctor(ceilings: bool, again: bool, device: str, as_json: bool) -> None:
    """Report devices, toolkit, driver and versions, what is missing, and the command that fixes it."""
    from tuner.cli.text import echo_wrapped, print_json
    from tuner.doctor import examine

    if again and not ceilings:
        raise UsageError("doctor --again: nothing else is kept; write tune doctor --ceilings --again")
    if ceilings:
        from tuner.cli.ceilings import show_ceilings

        show_ceilings(device, again, as_json)
        return

    findings = examine()
    if as_json:
        print_json([finding.as_dict() for finding in findings])
        return
    for finding in findings:
        echo_wrapped(f"{'ok  ' if finding.ok else 'miss'}  {finding.subject:<18} {finding.found}", FOUND)
        if finding.remedy:
            echo_wrapped(" " * FOUND + finding.remedy, FOUND)


@click.command(short_help="The networks' accuracy, or a winner's class agreement.")
@click.option("--network", "names", multiple=True, metavar="NAME", help="Only this network (repeatable).")
@naming.study(required=False, metavar="[STUDY]")
@options.data
@options.templates
@options.storage
@options.as_json
def verify(names: tuple[str, ...], study: str | None, data: Path | None, as_json: bool, **rest: Any) -> None:
    """Print each network's accuracy on the first 10, 100, 1,000 and 10,000 test images.

    With a STUDY: how many images get the class that the FP32 network gives them when the winner computes its layer. A
    network's name, such as sp18, means that network only.
    """
    from tuner.cli.verify import verify_networks, verify_study
    from tuner.problems.conv.architectures import ARCHITECTURES

    if study and study.lower() in ARCHITECTURES:
        verify_networks((study.lower(), *names), data, as_json)
    elif study:
        verify_study(study, rest["storage"], options.chosen_templates(rest["templates"]), as_json)
    else:
        verify_networks(names, data, as_json)


@click.command(short_help="Show the compile cache, or clear it.")
@click.option("--clear", is_flag=True, help="Delete every compiled binary.")
def cache(clear: bool) -> None:
    """Show the compile cache, or clear it."""
    from tuner.devices.cache import CompileCache

    store = CompileCache.default()
    if clear:
        echo(f"deleted {store.trim(0)} binaries from {store.folder}")
        return
    use = store.use()
    echo(f"{use.folder}: {use.entries} binaries, {use.nbytes / 1e6:.1f} MB of at most {store.limit_bytes / 1e6:.0f} MB")


COMMANDS = (doctor, verify, cache)
