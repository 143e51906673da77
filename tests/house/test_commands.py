"""A file a command: who lists ``tuner/cli`` sees what ``tune`` can do."""

from __future__ import annotations

from documents import ROOT

from tuner.cli import cli

FOLDER = ROOT / "tuner" / "cli"


def test_each_file_is_the_command_of_its_name() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files == set(cli.commands)
    for name, command in cli.commands.items():
        assert command.callback is not None
        assert command.name == name
