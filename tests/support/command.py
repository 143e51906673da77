"""The command in this process and as a process of its own."""

from __future__ import annotations

import sys

import pytest

from tuner.cli import _run

TUNE = [sys.executable, "-c", "from tuner.cli import main; main()"]
SMALL = ("--layer", "C=2,H=12,W=11,M=3,K=3", "--batch", "9", "--template", "direct")


def tune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, standard output and standard error."""
    code = _run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err
