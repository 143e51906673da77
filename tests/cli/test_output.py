"""What the command line does when its output cannot be written, or a library would say more than one line."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.cli import _run

TUNE = [sys.executable, "-c", "from tuner.cli import main; main()"]


def test_reader_that_has_gone_is_no_failure():
    process = subprocess.Popen([*TUNE, "layers"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(300), said) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["layers"], ["layers", "--json"]])
def test_full_disk_behind_the_output_is_one_line(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*TUNE, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "tune: cannot write the output or a file (No space left on device); free some space\n"


def test_closing_of_a_connection_that_ctrl_c_hits_is_not_told():
    assert _run(["layers"]) == 0
    assert not logging.getLogger("sqlalchemy.pool.impl.QueuePool").isEnabledFor(logging.ERROR)
