"""Whole studies: listed, renamed, deleted, taken in from another store; and output whose reader has gone."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
import pytest
from toy_store import ENVIRONMENT, TEMPLATES, final, sql, toy_configuration, toy_failure, toy_key, toy_ok

from tuner.cli import _run
from tuner.errors import TunerError
from tuner.problems.conv.layers import find_layer
from tuner.storage import Announcement, Store, StudyHandle
from tuner.storage.runs import running_on

TUNE = [sys.executable, "-m", "tuner"]
OTHERS = dataclasses.replace(ENVIRONMENT, driver="PoCL 4.0", host="other")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fill the usual store with two studies: one with a winner, one of another layer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    with Store.open() as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        handle.record_all([final(0), toy_ok(1, 3e-3), toy_failure(2, "compile_error")])
        handle.set_winner(toy_configuration(0))
        store.study(toy_key("fa18/conv1"), ENVIRONMENT, TEMPLATES).record(toy_ok(0, 5e-3))
    return tmp_path


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[StudyHandle]:
    """Fill another store: the same study with two results more, measured on another machine."""
    with Store.open(tmp_path / "other.db") as store:
        handle = store.study(toy_key(), OTHERS, TEMPLATES)
        handle.record_all([toy_ok(0, 7e-3), final(5, 0.5e-3), toy_failure(6, "wrong_result", "at (0, 1)\nmore")])
        handle.set_winner(toy_configuration(5))
        yield handle


def tune(capsys, *arguments):
    code = _run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_list_has_what_tells_studies_apart_within_80_columns(capsys, here):
    code, out, _ = tune(capsys, "list")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    head = next(line for line in out.splitlines() if "study" in line and "winner" in line)
    for column in ("study", "created", "device", "trials", "winner", "ms", "+-", "template"):
        assert column in head
    assert "toy" in out
    newest, oldest = json.loads(tune(capsys, "list", "--json")[1])
    assert (newest["winner"], newest["template"]) == (None, None)
    assert (oldest["winner"], oldest["template"], oldest["device"]) == (0, "toy", "cpu")
    assert 0 < oldest["spread"] < 0.02


def test_renamed_study_has_its_new_name_everywhere_and_goes_on(capsys, here):
    code, out, err = tune(capsys, "rename", "conv2", "my  best")
    assert (code, err) == (0, "")
    assert out.endswith(" to my best\n")
    assert tune(capsys, "best", "my best")[0] == 0
    assert tune(capsys, "best", toy_key().digest[:6])[0] == 0
    with Store.open() as store:
        assert store.study(toy_key(), ENVIRONMENT, TEMPLATES).name == "my best"
        assert len(store.studies()) == 2
        names = optuna.get_all_study_names(store.optuna_storage())
    assert sorted(names)[1] == "my best"


@pytest.mark.parametrize("name", ["", "7", "x" * 201, "MINE\u0007"])
def test_name_that_nobody_could_give_again_is_refused(capsys, here, name):
    code, _, err = tune(capsys, "rename", "conv2", name)
    assert (code, err.count("\n")) == (2, 1)
    assert "would not be found again" in err


def test_name_of_another_study_is_refused(capsys, here):
    assert tune(capsys, "rename", "conv2", "mine")[0] == 0
    code, _, err = tune(capsys, "rename", "conv1", "Mine")
    assert (code, err) == (2, "tune: name 'Mine': another study has it; give another name\n")


def test_deleted_study_takes_all_its_rows_with_it(capsys, here):
    code, out, _ = tune(capsys, "delete", "sp18/conv2", "--yes")
    assert code == 0
    assert out.startswith("deleted sp18/conv2 cpu B100 fp32 ")
    assert out.endswith(", 3 trials\n")
    with sql(here / "studies" / "tuner.db") as db:
        for table, left in (
            ("tuner_study", 1),
            ("tuner_result", 1),
            ("tuner_sample", 1),
            ("studies", 1),
            ("trials", 1),
        ):
            assert db.execute(f"select count(*) from {table}").fetchone() == (left,), table


def test_delete_asks_and_without_a_terminal_says_so(capsys, here):
    code, _, err = tune(capsys, "delete", "sp18/conv2")
    assert (code, err.count("\n")) == (2, 1)
    assert "there is no terminal to ask on; add --yes" in err
    with Store.open() as store:
        assert len(store.studies()) == 2


def test_study_that_a_run_is_on_is_not_deleted(capsys, here):
    with Store.open() as store:
        store.find_study("conv2").claim([toy_configuration(9)])
        code, _, err = tune(capsys, "delete", "sp18/conv2", "--yes")
        assert (code, err.count("\n")) == (2, 1)
        assert "is measuring it; end that run first" in err
        assert len(store.studies()) == 2


LAYER = find_layer("conv2", 100)
OTHER_RUN = """
import sys
from toy_store import ENVIRONMENT, TEMPLATES, toy_key
from tuner.problems.conv.layers import find_layer
from tuner.storage import Announcement, Store
layer, precision, joins = find_layer("conv2", int(sys.argv[1])), sys.argv[2], sys.argv[3] == "joins"
with Announcement("studies/tuner.db", layer, precision) as announced:
    if joins:
        with Store.open() as store:
            announced.join(store.study(toy_key(), ENVIRONMENT, TEMPLATES))
    print("there", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_run(*words: str) -> Iterator[subprocess.Popen[str]]:
    support = Path(__file__).parents[1] / "support"
    environment = {**os.environ, "PYTHONPATH": f"{support}:{support.parents[1]}"}
    command = [sys.executable, "-c", OTHER_RUN, *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "there\n"
        yield process
        process.kill()


def test_study_that_a_run_prepares_or_is_on_is_neither_deleted_nor_renamed(capsys, here):
    for words, said in (
        (("100", "fp32", "prepares"), "prepares a run of its problem"),
        (("100", "fp32", "joins"), "is meas"),
    ):
        with another_run(*words) as process:
            for arguments in (("delete", "sp18/conv2", "--yes"), ("rename", "sp18/conv2", "mine")):
                code, out, err = tune(capsys, *arguments)
                assert (code, out, err.count("\n")) == (2, "", 1), arguments
                assert f"process {process.pid} on " in err
                assert said in err
                assert err.endswith("; end that run first\n")
            assert tune(capsys, "show", "sp18/conv2")[0] == 0
            assert tune(capsys, "rename", "fa18/conv1", "theirs")[0] == 0
            assert tune(capsys, "rename", "theirs", "sp18 the first")[0] == 0
            assert tune(capsys, "rename", "sp18 the first", "fa18/conv1")[0] == 0
    assert tune(capsys, "delete", "sp18/conv2", "--yes")[0] == 0  # both are dead
    with Store.open() as store, Announcement(str(store), LAYER, "fp32"), sql(here / "studies" / "tuner.db") as db:
        assert db.execute("select pid from tuner_run").fetchall() == [(os.getpid(),)]


@pytest.mark.parametrize("words", [("50", "fp32", "prepares"), ("100", "tf32", "prepares")])
def test_run_of_another_batch_or_precision_is_no_obstacle(capsys, here, words):
    with another_run(*words):
        assert tune(capsys, "rename", "sp18/conv2", "mine")[0] == 0


def test_run_that_has_ended_is_no_obstacle(capsys, here):
    with Announcement("studies/tuner.db", LAYER, "fp32") as announced, Store.open() as store:
        announced.join(store.find_study("conv2"))
        assert "is measuring it" in tune(capsys, "delete", "sp18/conv2", "--yes")[2]
    with sql(here / "studies" / "tuner.db") as db:
        assert db.execute("select count(*) from tuner_run").fetchone() == (0,)
    assert tune(capsys, "delete", "sp18/conv2", "--yes")[0] == 0


def test_store_that_is_not_there_is_not_made_by_an_announcement(tmp_path):
    with Announcement(str(tmp_path / "t.db"), LAYER, "fp32") as announced:
        assert list(tmp_path.iterdir()) == []
        with Store.open(tmp_path / "t.db") as store:
            announced.join(store.study(toy_key(), ENVIRONMENT, TEMPLATES))
            assert running_on(store.find_study("conv2")) is not None
    with Store.open(tmp_path / "t.db") as store:
        assert running_on(store.find_study("conv2")) is None


def test_run_is_announced_before_it_prepares(monkeypatch, tmp_path, capsys, here):
    seen = []

    def preparing(*_):
        with Store.open() as store:
            seen.append(str(running_on(store.find_study("sp18/conv2"))))
        raise TunerError("enough")

    monkeypatch.setattr("tuner.tuning.session.Worker", preparing)
    assert tune(capsys, "run", "conv2", "--batch", "100", "--device", "cpu", "--trials", "1")[0] == 1
    assert "prepares a run of its problem" in seen[0]
    assert tune(capsys, "delete", "sp18/conv2", "--yes")[0] == 0


def test_merge_says_that_a_run_is_on_a_study(capsys, here, elsewhere):
    with Store.open() as store, Announcement(str(store), LAYER, "fp32") as announced:
        announced.join(store.find_study("conv2"))
        code, _, err = tune(capsys, "merge", "other.db")
    assert code == 0
    assert err.endswith("is measuring it; its finals take in what was added\n")


def test_merged_study_has_each_configuration_once(capsys, here, elsewhere):
    code, out, _ = tune(capsys, "merge", "other.db")
    assert code == 0
    assert "2 trials added, 1 were here already" in " ".join(out.split())
    with Store.open() as store:
        ours = store.find_study("conv2")
        results = ours.numbered()
        assert [each.configuration for each in results.values()] == [toy_configuration(n) for n in (0, 1, 2, 5, 6)]
        assert results[0] == final(0)
        assert results[3] == dataclasses.replace(final(5, 0.5e-3), settled=0.0)
        assert results[4] == toy_failure(6, "wrong_result", "at (0, 1)\nmore")
        assert ours.environment_of(toy_configuration(5)) == OTHERS
        assert ours.best() == final(0)
    again = tune(capsys, "merge", "other.db")[1]
    assert "0 trials added, 3 were here already" in " ".join(again.split())
    assert len(elsewhere.results()) == 3


def test_study_that_is_new_here_is_merged_with_its_winner_and_its_note(capsys, here, elsewhere):
    elsewhere.note(f"{elsewhere.read_note()}Try a wider tile.\n")
    with Store.open() as store:
        store.optuna_storage().delete_study(store.find_study("sp18/conv2").optuna_id)
    code, out, _ = tune(capsys, "merge", "other.db")
    assert code == 0
    assert "3 trials added, a new study" in " ".join(out.split())
    with Store.open() as store:
        ours = store.find_study("sp18/conv2")
        assert ours.results() == elsewhere.results()
        assert ours.best() == final(5, 0.5e-3)
        assert ours.read_note().endswith("Try a wider tile.\n")
        (summary,) = [each for each in store.studies() if each.name == ours.name]
    with elsewhere.database.reading() as session:
        assert summary.created == session.connection().exec_driver_sql("select created from tuner_study").scalar()


def test_store_is_not_merged_with_itself(capsys, here):
    code, _, err = tune(capsys, "merge", "studies/tuner.db")
    assert (code, err.count("\n")) == (2, 1)
    assert "it is the store itself" in err


@pytest.mark.parametrize("arguments", [("show", "sp18/conv2"), ("list",), ("layers",), ("templates",)], ids=" ".join)
@pytest.mark.parametrize("both", [False, True], ids=["stdout", "stderr too"])
def test_output_whose_reader_has_gone_ends_quietly(here, arguments, both):
    process = subprocess.Popen(
        [*TUNE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT if both else subprocess.PIPE, text=True
    )
    assert process.stdout
    process.stdout.close()
    said = process.stderr.read() if process.stderr else ""
    if process.stderr:
        process.stderr.close()
    assert (process.wait(300), said) == (0, "")


def test_run_whose_reader_has_gone_goes_on_to_its_end(tmp_path):
    small = ("c=2,h=12,w=11,m=3,k=3", "--batch", "9", "--template", "direct", "--trials", "8", "--device", "cpu")
    process = subprocess.Popen(
        [*TUNE, "run", *small, "--storage", "t.db"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline().startswith("C2H12W11M3K3 on cpu")
    process.stdout.close()
    assert process.stderr
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(300), said) == (0, "")
    with Store.open(tmp_path / "t.db", create=False) as store:
        handle = store.find_study("C2H12W11M3K3")
        assert len(handle.results()) == 8
        assert handle.champion() is not None
