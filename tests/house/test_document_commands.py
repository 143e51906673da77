"""Every command line in the documents: run where it can be, parsed where it needs a GPU, the network or a person."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from documents import CHANGELOG, DOCUMENTS, README, ROOT, blocks, command_lines, inline_commands, name

from tuner.cli import _run, cli

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FAQ, PYTHON = (ROOT / "docs" / f"{page}.md" for page in ("faq", "python"))
CURRENT = [each for each in DOCUMENTS if each != CHANGELOG]  # that one tells what was
EACH = pytest.mark.parametrize("document", CURRENT, ids=name)
FIRST = ["tune", "run", "conv2"]
SMALL = ["--device", "cpu", "--batch", "2"]
FEW = {"run": [*SMALL, "--trials", "2"], "compare": SMALL}
ONLY_PARSED = {"dashboard"}  # it serves until Ctrl-C; tests of its own run it


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    """What the documents say of a machine without one holds on any."""
    monkeypatch.setattr("tuner.devices.cuda_driver.count", lambda: 0)


@EACH
def test_commands_are_such_as_the_command_line_takes(document):
    for words in (*command_lines(document), *inline_commands(document)):
        if words[0] != "tune":
            _check_other(words)
        elif len(words) == 2:  # a command's name in a sentence
            assert words[1].startswith("-") or words[1] in cli.commands
        else:
            cli.commands[words[1]].make_context(words[1], words[2:])


def test_commands_that_need_no_gpu_run_as_they_stand(tmp_path, monkeypatch, capsys):
    """In the order of the documents, after a first run; on two images and with few trials, so that it takes seconds."""
    monkeypatch.chdir(tmp_path)
    _runs([*FIRST, "--template", "direct"], ["--trials", "12"], capsys)
    done = [FIRST]
    for document in CURRENT:
        for words in command_lines(document):
            if words[0] == "tune" and words not in done and "mine" not in str(words) and words[1] not in ONLY_PARSED:
                _runs(words, [], capsys)
                done.append(words)
    assert len(done) > 12
    assert (tmp_path / "conv2_best.h").exists()


def _runs(words: list[str], more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    few = [*FEW.get(words[1], []), *more]
    if words[1] == "run" and "--only" not in words and "--template" not in words:
        few += ["--template", "direct"]
    code = _run([*words[1:], *few])
    out, err = capsys.readouterr()
    assert code == 0, f"{shlex.join(words)}: {code}\n{out}{err}"


def _check_other(words: list[str]) -> None:
    """Check a line that is not ours as far as it can be without a network, a GPU or root."""
    while "&&" in words:
        at = words.index("&&")
        _check_other(words[:at])
        words = words[at + 1 :]
    match words:
        case ["tune", command, *rest]:
            cli.commands[command].make_context(command, rest)
        case ["pip", "install", *what]:
            assert set(re.findall(r"[a-z]+", "".join(what))) <= {
                *PROJECT["project"]["optional-dependencies"],
                "torch",
            }
        case ["pytest", *options]:
            marks = [mark.split(":")[0] for mark in PROJECT["tool"]["pytest"]["ini_options"]["markers"]]
            assert [mark for flag, mark in pairwise(options) if flag == "-m"] in ([], marks[:1])
        case ["python" | "python3", "-m", "venv", _] | [".", ".venv/bin/activate"] | ["export", _]:
            pass
        case ["sudo", "apt-get", "install", *packages]:
            assert all(re.fullmatch(r"[a-z][a-z0-9+.-]+", package) for package in packages)
        case [".ci/run"]:
            assert os.access(ROOT / ".ci" / "run", os.X_OK)
        case _:
            pytest.fail(f"nothing is known of: {shlex.join(words)}")


@EACH
def test_scripts_in_sentences_exist_and_take_these_options(document):
    text = " ".join(document.read_text(encoding="utf-8").split())
    for script, options in re.findall(r"`python (tests/[\w/]+\.py)([^`]*)`", text):
        source = (ROOT / script).read_text(encoding="utf-8")
        assert [each for each in re.findall(r"--[\w-]+", options) if each not in source] == [], script


def test_errors_of_the_faq_are_printed_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("# not a database\n" * 99)
    shown = [block.splitlines() for block in blocks(FAQ, "console")]
    assert len(shown) >= 12
    for command, expected in shown:
        assert _run(shlex.split(command.removeprefix("$ tune "))) in (1, 2), command
        error = capsys.readouterr().err
        assert re.fullmatch(_but_for_numbers(expected), error.rstrip("\n")), f"{command}\n{error}"


def _but_for_numbers(line: str) -> str:
    """Return a pattern of a line: numbers may be another machine's."""
    return re.sub(r"\d+|(?<= )N$", r"\\d+", re.escape(line))


def test_examples_in_python_run_as_they_stand(tmp_path):
    """On a small layer and with few trials; the first one and ``mine.py`` have tests of their own."""
    script = "\n".join(blocks(PYTHON, "python")[1:])
    assert script.count('"conv2"') >= 2
    script = script.replace('"conv2"', '"C=2,H=12,W=11,M=3,K=3,B=9"').replace("trials=20", "trials=2")
    done = subprocess.run(
        [sys.executable, "-"],
        cwd=tmp_path,
        input=script,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "ok" in done.stdout.split()


def test_readme_begins_with_the_two_commands():
    """Everything else that a document shows is checked above; these two are ``tests/fresh.sh``'s."""
    assert len(blocks(README, "sh")[0].splitlines()) == 2
    assert Path(ROOT / "tests" / "fresh.sh").exists()
