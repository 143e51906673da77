"""A study without heuristics is another one, and every command about it says so."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pocl_harness import CPU_LIMITS
from toy_store import ENVIRONMENT, TEMPLATES, TOY, sql, toy_key

from tuner.cli import main
from tuner.cli.run import command
from tuner.errors import UsageError
from tuner.kernels.space import enumerate_space
from tuner.kernels.template import Heuristic
from tuner.problems.conv.layers import LAYERS
from tuner.results import StudyKey
from tuner.storage import Store
from tuner.storage.dashboard_note import resume_command
from tuner.tuning.options import RunOptions
from tuner.tuning.template_checks import MOST_WITHOUT_HEURISTICS, check_not_too_many, left_out_by_heuristics

LAYER = LAYERS["sp18/conv2"]
WHOLE = replace(toy_key(), heuristics=False)


def options(**given: Any) -> RunOptions:
    return RunOptions(problem=LAYER, device="cpu", templates=(TOY,), storage="", sampler="random", **given)


def test_command_that_resumes_it_says_so() -> None:
    assert resume_command(WHOLE, "cpu").endswith(" --no-heuristics")
    assert "heuristics" not in resume_command(toy_key(), "cpu")


def test_store_remembers_it(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "store.db")) as store:
        store.study(WHOLE, ENVIRONMENT, TEMPLATES)
    with Store.open(str(tmp_path / "store.db"), create=False) as store:
        assert store.find_study(WHOLE.name).key.heuristics is False


def test_older_store_had_heuristics(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(str(path)) as store:
        store.study(toy_key(), ENVIRONMENT, TEMPLATES)
    with sql(path) as database:
        database.execute("ALTER TABLE tuner_study DROP COLUMN heuristics")
        database.execute("UPDATE tuner_schema SET version = 5")
    with Store.open(str(path)) as store:
        assert store.find_study(toy_key().name).key.heuristics is True


def test_what_they_leave_out_is_counted_in_a_line() -> None:
    taste = Heuristic("wide", lambda p, layer, limits: p.TILE_WIDTH >= 16, "narrow tiles are slow")
    space = enumerate_space([replace(TOY, heuristics=(taste,))], LAYER, CPU_LIMITS)
    assert left_out_by_heuristics(space) == ["heuristics leave out what would run (toy 1); see tune templates"]
    assert left_out_by_heuristics(enumerate_space([TOY], LAYER, CPU_LIMITS)) == []


def test_too_many_configurations_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    space = enumerate_space([TOY], LAYER, CPU_LIMITS)
    monkeypatch.setattr(type(space), "__len__", lambda self: MOST_WITHOUT_HEURISTICS + 1)
    with pytest.raises(UsageError, match="2,000,001 configurations to search, at most"):
        check_not_too_many(space, options(heuristics=False))
    check_not_too_many(space, options())


@pytest.mark.parametrize("key", [toy_key(), WHOLE], ids=["with", "without"])
def test_show_says_whether_a_study_had_them(key: StudyKey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "store.db")
    with Store.open(path) as store:
        store.study(key, ENVIRONMENT, TEMPLATES)
    for more in ([], ["--json"]):
        with suppress(SystemExit):
            main(["show", key.name, "--storage", path, *more])
        shown = capsys.readouterr().out
        said = json.loads(shown)["heuristics"] if more else "without heuristics" not in shown
        assert said is key.heuristics


def test_command_line_has_the_switch() -> None:
    assert any("--no-heuristics" in parameter.opts for parameter in command.params)
