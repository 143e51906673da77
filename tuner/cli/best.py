"""``tune best``: the verified winner of a study."""

from __future__ import annotations

import click

from tuner.cli.support import naming, options
from tuner.cli.support.rows import conditions
from tuner.cli.support.text import echo_wrapped, milliseconds, print_json, spread


@click.command("best", short_help="The verified winner of a study.")
@naming.study()
@options.storage
@options.as_json
def command(study: str, storage: str, as_json: bool) -> None:
    """Print the verified best configuration of a study."""
    from tuner.cli.support.result_json import result_json

    view = naming.read(storage, study)
    champion = view.verified()
    found = champion.result
    if as_json:
        print_json({"study": view.name, "trial": champion.trial, **result_json(found, view.yardstick)})
        return
    echo_wrapped(f"{view.name}: trial {champion.trial}, {milliseconds(found.seconds)} ms +- {spread(found)}")
    echo_wrapped(str(found.configuration))
    for line in conditions(found):
        echo_wrapped(line)
