"""The README's commands and the Pythons it names: what tests/fresh.sh runs, and what the package says of itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_both_commands_make_their_environment_and_leave_the_user_in_it():
    block = re.search(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert block, "no block of commands"
    lines = block[1].splitlines()
    begin = "python3 -m venv .venv && . .venv/bin/activate && pip install "
    assert [line.removeprefix(begin) for line in lines] == [". && tune run --layer conv2", "'.[test]' && pytest"]
    assert "python3-venv" in README[: block.start()]


def test_readme_classifiers_and_requirement_name_the_same_pythons():
    named = sorted(set(re.findall(r"\b3\.1\d\b", README.split("```sh")[0])))
    assert named == [word.split()[-1] for word in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", word)]
    first, last = (re.search(rf"{sign}3\.(\d+)", PROJECT["requires-python"]) for sign in (">=", "<"))
    assert first
    assert last
    assert named == [f"3.{minor}" for minor in range(int(first[1]), int(last[1]))]
