"""Folders for short-lived files: none is left by a run that was killed, and none is taken from one that lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tuner.processes.scratch import PREFIX, Scratch, sweep

KILLED = """
import os, signal
from tuner.processes.scratch import Scratch
scratch = Scratch()
(scratch.folder / "process-x").mkdir()
print(scratch.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_folder_of_a_killed_process_is_swept_and_that_of_a_living_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = Scratch()
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    left = Path(done.stdout.strip())
    assert left.parent == tmp_path
    assert left.is_dir()
    assert sweep(tmp_path) == 1
    assert not left.exists()
    assert ours.folder.is_dir()
    ours.close()
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_folder_of_ours_stays(tmp_path):
    (tmp_path / f"{PREFIX}unlocked").mkdir()
    (tmp_path / f"{PREFIX}file").write_text("a file")
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path)
    assert sweep(tmp_path) == 0
    assert len(list(tmp_path.iterdir())) == 3
