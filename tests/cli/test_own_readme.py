"""The documented template, copied into an empty folder, is tuned and exported by the documented commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.kernels.loading import load_template
from tuner.kernels.template import CUDA, OPENCL
from tuner.kernels.text import check_source

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """An empty folder with what the section shows, and a ``tune`` on the PATH that is this one."""
    page = (ROOT / "docs" / "adding-a-template.md").read_text(encoding="utf-8")
    section = page.split("## A complete example\n")[1].split("\n## ")[0]
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))
    assert set(blocks) == {"c", "python", "sh"}
    (tmp_path / "mine.cu").write_text(blocks["c"])
    (tmp_path / "mine.py").write_text(blocks["python"])
    (tmp_path / "commands.sh").write_text(blocks["sh"])
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    tune = bin_folder / "tune"
    tune.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from tuner.cli import main; main()" "$@"\n')
    tune.chmod(0o755)
    return tmp_path


def test_kernel_of_the_page_is_for_both_languages(folder):
    template = load_template(folder / "mine.py")
    for dialect in (CUDA, OPENCL):
        check_source(template, dialect)


def test_commands_of_the_page_tune_and_export_it(folder):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["sh", "-e", "commands.sh"],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": python_path, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mine@sp18/conv2 cpu" in done.stdout
    assert "wrote mine.h" in done.stdout
    text = (folder / "mine.h").read_text()
    assert "#ifndef MINE_SP18_CONV2_FP32_B" in text
    assert not (folder / "__pycache__").exists()
