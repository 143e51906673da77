"""A study remembers the user's own template: every other command works without naming it again."""

from __future__ import annotations

import shlex
import sqlite3

import pytest
from command import tune
from older_stores import with_columns_of_layers
from own_template import SOURCE, written

from tuner.storage import Store
from tuner.storage.dashboard_note import resume_command
from tuner.storage.location import find_location

LAYER = "C=2,H=12,W=11,M=3,K=3"
RUN = ("run", "--layer", LAYER, "--batch", "9", "--device", "cpu", "--sampler", "grid", "--jobs", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which an own template was tuned; it lies in another one, with a blank in its name."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "my kernels").mkdir()
    written(folder / "my kernels")
    return folder


@pytest.fixture(scope="module")
def first(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        from tuner.cli import _run

        assert _run([*RUN, "--template", "my kernels/mine.py", "--trials", "3"]) == 0
    with Store.open(folder / "studies" / "tuner.db") as store:
        return store.find_study("mine@" + LAYER)


@pytest.fixture
def here(folder, first, monkeypatch):
    monkeypatch.chdir(folder)
    return first.name


def test_study_is_named_after_the_template(folder, first):
    assert first.name.startswith("mine@C2H12W11M3K3 cpu B9 fp32 ")
    assert first.key.sources == (("mine", str(folder / "my kernels" / "mine.py")),)


def test_resume_command_and_note_name_the_file(capsys, folder, here, first):
    command = resume_command(first.key, "cpu")
    assert command.endswith(f" --template {shlex.quote(str(folder / 'my kernels' / 'mine.py'))}")
    with Store.open(folder / "studies" / "tuner.db") as store:
        note = store.find_study(here).read_note()
    assert f"**Resume:** `{command}`" in note
    assert f"mine (`{folder}/my kernels/mine.py`)" in note
    code, out, _ = tune(capsys, *shlex.split(command)[1:], "--sampler", "grid", "--trials", "9", "--jobs", "1")
    assert code == 0
    assert out.startswith("mine@C2H12W11M3K3 on cpu: ")
    assert "3 known before" in " ".join(out.split())
    assert "tune export mine@C2H12W11M3K3 -o " in " ".join(out.split())


@pytest.mark.parametrize("named", ["mine@C=2,H=12,W=11,M=3,K=3", "mine@C2H12W11M3K3", "mine@", "mine"])
def test_study_is_found_by_the_templates_name(capsys, here, named):
    code, out, err = tune(capsys, "best", named)
    assert code == 0, err
    assert out.startswith(f"{here}: ")


def test_show_says_where_the_template_is(capsys, folder, here):
    assert f"template mine: {folder}/my kernels/mine.py" in tune(capsys, "show", here)[1]


def test_export_replay_and_compare_need_no_template(capsys, folder, here):
    code, out, err = tune(capsys, "export", here, "-o", "mine.h")
    assert code == 0, err
    text = (folder / "mine.h").read_text()
    assert "template  mine: one thread an output" in text
    assert f"--template '{folder}/my kernels/mine.py'" in text
    code, out, err = tune(capsys, "replay", here, "0")
    assert code == 0, err
    assert "now: ok" in out


def test_export_makes_the_folder_of_its_own_choice(capsys, tmp_path, monkeypatch, folder, here):
    monkeypatch.chdir(tmp_path)
    code, out, err = tune(capsys, "export", here, "--storage", str(folder / "studies" / "tuner.db"))
    assert code == 0, err
    assert "wrote studies/c2h12w11m3k3_best.h" in out
    assert (tmp_path / "studies" / "c2h12w11m3k3_best.h").read_text().startswith("// mine_c2h12w11m3k3_fp32_b9_cpu_")
    code, _, err = tune(capsys, "export", here, "--split", "--storage", str(folder / "studies" / "tuner.db"))
    assert code == 2
    assert err.startswith("tune: export --split: ")


def test_file_that_is_gone_is_one_line(capsys, folder, here):
    file = folder / "my kernels" / "mine.py"
    file.rename(file.with_suffix(".gone"))
    try:
        for command in (("export", here), ("replay", here, "0"), ("compare", here, "--device", "cpu")):
            code, _, err = tune(capsys, *command)
            assert code == 2
            assert err == (
                f"tune: study '{here}': its template's file {file} is gone; put it back, or give it with "
                "--template PATH\n"
            )
    finally:
        file.with_suffix(".gone").rename(file)


def test_chosen_built_in_templates_are_resumed_as_chosen(capsys, folder, here):
    code, _, err = tune(capsys, *RUN, "--template", "direct", "--trials", "1")
    assert code == 0, err
    with Store.open(folder / "studies" / "tuner.db") as store:
        study = store.find_study(LAYER)
    assert study.name.startswith("C2H12W11M3K3 cpu")
    assert resume_command(study.key, "cpu").endswith(" --template direct")


def test_store_from_before_templates_were_remembered_is_read(tmp_path, folder, here):
    older = tmp_path / "older.db"
    with sqlite3.connect(folder / "studies" / "tuner.db") as source, sqlite3.connect(older) as copy:
        source.backup(copy)
    source.close()
    copy.execute("ALTER TABLE tuner_study DROP COLUMN sources")
    with_columns_of_layers(copy)
    copy.execute("UPDATE tuner_schema SET version = 3")
    copy.commit()
    copy.close()
    assert find_location(older).path == older
    with Store.open(older) as store:
        study = store.find_study(here)
        assert study.key.sources == ()
        assert study.champion() is not None


def test_edited_source_makes_a_study_that_its_name_finds_once_it_has_a_winner(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    command = (*RUN, "--template", "mine.py", "--trials", "1", "--storage", "t.db")
    where = ("--storage", "t.db")
    assert tune(capsys, *command)[0] == 0
    with Store.open("t.db") as store:
        first = store.find_study("mine").name
    written(tmp_path, source=SOURCE.replace("sum = 0.0f", "sum = 1.0f"))
    assert tune(capsys, *command)[0] == 1
    code, out, err = tune(capsys, "best", "mine", *where)
    assert (code, err) == (0, f"'mine' is taken for '{first}': the newest of 2 that has a verified winner\n")
    assert out.startswith(f"{first}: trial 0")
    with Store.open("t.db") as store:
        failed = next(each.name for each in store.studies() if each.name != first)
    code, _, err = tune(capsys, "best", failed, *where)
    assert code == 1
    assert "no verified winner: its one trial failed; tune show " in err
    assert "goes on" not in err
    code, out, err = tune(capsys, "replay", first, "0", *where)
    assert code == 0, err
    told = " ".join(out.split())
    assert "changed since that trial was measured: the source of template mine, its launch or the inputs" in told
    assert "now: wrong_result" in told
    assert "changed since" not in tune(capsys, "replay", failed, "0", *where)[1]
    written(tmp_path, source=SOURCE.replace("sum = 0.0f", "sum = 0.0f * 1"))
    assert tune(capsys, *command)[0] == 0
    assert first not in tune(capsys, "best", "mine", *where)[1]
    code, _, err = tune(capsys, "delete", "mine", "--yes", *where)
    assert (code, err.count("\n")) == (2, 1)
    assert "give more of its name" in err
