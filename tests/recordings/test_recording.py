"""``tune simulate``, ``tune record`` and ``tune run --only``: whole ways from a run to a replayed space."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from command import SMALL, TUNE, tune
from faulty import faulty
from small_run import run
from toy_store import ENVIRONMENT, OTHER, TEMPLATES, TOY, timed, toy_failure, toy_key, toy_ok

from tuner.errors import UsageError
from tuner.kernels.space import enumerate_space
from tuner.kernels.subspace import Restriction
from tuner.kernels.template import DeviceLimits
from tuner.problems.conv.layers import find_layer
from tuner.recordings.scores import Curve
from tuner.recordings.simulate import simulate
from tuner.recordings.space import load_recorded
from tuner.recordings.write import record_study
from tuner.report.curves import curve_figure
from tuner.report.pictures import write_picture
from tuner.storage import Store
from tuner.storage.mapping import choices_of_templates

CHOICES = choices_of_templates(TEMPLATES)
LIMITS = DeviceLimits(
    dialect="opencl", max_threads=4096, max_block=(64, 64, 64), shared_bytes=0, constant_bytes=0, registers=0, warp=1
)
SPACE = "x,y,time_ms\n" + "".join(f"{x},{y},{x + y}\n" for x in (1, 2, 4, 8) for y in (1, 3))


@pytest.fixture
def stored(tmp_path):
    """A store with one study of two templates: measured, pruned and failed."""
    url = f"sqlite:///{tmp_path}/tuner.db"
    other = timed(OTHER.configuration({"TILE_WIDTH": 4, "VECTOR": 2}), 4e-4, 5e-4, fingerprint="other")
    with Store.open(url) as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        trials = [toy_ok(n, 1e-3 + 1e-5 * n, pruned=n == 5) for n in range(8)]
        handle.record_all([*trials, toy_failure(9, "compile_error"), other])
    return url


@pytest.mark.parametrize("name", ["space.csv", "space.csv.gz"])
def test_recorded_study_is_read_back_with_failures_and_pruned_trials(stored, tmp_path, name):
    with Store.open(stored) as store:
        handle = store.find_study("conv2")
        count, text = record_study(handle, Restriction(), tmp_path / name)
    space = load_recorded(tmp_path / name)
    assert count == len(space.candidates) == 10
    assert space.candidates.names == ("toy", "other")
    assert space.best == pytest.approx(4.5e-4)
    assert np.flatnonzero(np.isnan(space.seconds)).tolist() == [8]
    assert np.flatnonzero(space.pruned).tolist() == [5]
    assert space.compile_seconds[0] == pytest.approx(0.5)
    assert 0 < space.noise[0] < 0.01
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert "# device: cpu: Test CPU" in comments
    assert any(line.startswith("# layer: sp18/conv2: B=100") for line in comments)
    assert "0.4 0.5" in text.splitlines()[-1]
    for sampler in ("surrogate", "tpe", "random"):
        assert simulate(space, sampler, 10, 0).ratios[-1] == 1


def test_record_keeps_to_a_part_and_says_when_it_is_empty(stored, tmp_path):
    with Store.open(stored) as store:
        handle = store.find_study("conv2")
        only = Restriction.parse(["TILE_WIDTH=8 GRID_LAYOUT=M,B"], handle.choices)
        count, text = record_study(handle, only, None)
        assert count == sum(n % 3 == 0 and n // 3 % 2 == 1 for n in (*range(8), 9))
        assert "# only: TILE_WIDTH=8 GRID_LAYOUT=M,B" in text
        with pytest.raises(UsageError, match="no trial within VECTOR=4 has a time"):
            record_study(handle, Restriction.parse(["VECTOR=4"], handle.choices), None)


def test_record_command_writes_a_file_or_standard_output(capsys, stored, tmp_path):
    target = tmp_path / "s.csv.gz"
    code, out, _ = tune(capsys, "record", "conv2", "--storage", stored, "-o", str(target))
    assert (code, out) == (0, f"wrote 10 configurations to {target}\n")
    code, out, _ = tune(capsys, "record", "conv2", "--storage", stored)
    assert out == gzip.decompress(target.read_bytes()).decode()
    code, _, err = tune(capsys, "record", "conv2", "--storage", stored, "-o", "s.txt")
    assert (code, err) == (2, "tune: recording s.txt: '.txt' is not a kind of recording; give a .csv or .csv.gz file\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("TILE_WIDTH", "write NAME=CHOICE,CHOICE"),
        ("TILE=8", "no parameter 'TILE'; there are: template, TILE_WIDTH"),
        ("TILE_WIDTH=8,9", "'9' is not a choice; there are: 8 16 32 4"),
        ("TILE_WIDTH=", "is not a choice"),
        ("TILE_WIDTH=8,", "is not a choice"),
        ("GRID_LAYOUT=B", "'B' is not a choice; there are: B,M M,B"),
        ("TILE_WIDTH=8 TILE_WIDTH=16", "TILE_WIDTH is given twice"),
        ("template=mine", "'mine' is not a choice; there are: toy other"),
    ],
)
def test_bad_restriction_is_one_line(text, says):
    with pytest.raises(UsageError) as caught:
        Restriction.parse([text], CHOICES)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", 384 + 6),
        ("TILE_WIDTH=8", 128 + 3),
        ("TILE_WIDTH=4,8", 128 + 6),
        ("GRID_LAYOUT=B,M,M,B PADDING=1,2", 3 * 2 * 2),
        ("GRID_LAYOUT=M,B", 192),
        ("template=other", 6),
        ("template=other,toy VECTOR=4", 2),
    ],
)
def test_restriction_keeps_what_it_admits(text, left):
    space = enumerate_space(TEMPLATES, find_layer("conv2", 10), LIMITS)
    only = Restriction.parse([text], CHOICES)
    part = only.of(space)
    assert len(part) == left == sum(map(only.admits, space))
    assert all(only.admits(each) and part.find(each) is not None for each in part)


def test_restriction_that_leaves_nothing_is_refused():
    space = enumerate_space((TOY,), find_layer("conv2", 10), LIMITS)
    with pytest.raises(UsageError, match="none of 384 valid configurations is left"):
        Restriction.parse(["VECTOR=2"], CHOICES).of(space)


def test_restricted_run_measures_its_part_and_shares_the_study(tmp_path):
    template = faulty("none", threads=(8, 16, 32, 64))
    only = Restriction.parse(["THREADS=16,32"], choices_of_templates((template,)))
    part = run(tmp_path, template, only=only)
    assert (part.reason, part.progress.done, part.progress.space) == ("exhausted", 2, 2)
    whole = run(tmp_path, template)
    assert (whole.progress.study, whole.progress.known, whole.progress.done) == (part.progress.study, 2, 2)
    again = run(tmp_path, template, only=only)
    assert (again.progress.done, again.progress.known) == (0, 4)


def test_exhaustive_run_over_a_part_is_recorded_and_simulated(tmp_path):
    some = "BLOCK_SHAPE=16x16,8x8 GRID_LAYOUT=B,M,1 CONST_K=1 CONST_M=0 UNROLL=1 ACCUMULATE=register WEIGHTS=global"
    part = ("--only", "template=direct", "--only", some)
    command = [*TUNE, "run", *SMALL, *part, "--sampler", "grid", "--trials", "500", "--device", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "space exhausted" in done.stdout
    recorded = subprocess.run([*TUNE, "record", "C2H12W11M3K3"], cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "space.csv").write_bytes(recorded.stdout)
    space = load_recorded(tmp_path / "space.csv")
    assert len(space.candidates) == 4
    assert f"only template=direct {some}: 4 of" in done.stdout
    simulated = subprocess.run(
        [*TUNE, "simulate", "space.csv", "--json", "--seeds", "2"], cwd=tmp_path, capture_output=True, check=True
    )
    assert json.loads(simulated.stdout)["scores"][0]["found"] == 1


def test_simulate_prints_table_and_curves_and_draws_a_file(capsys, tmp_path):
    for name in ("one.csv", "two&<.csv"):
        (tmp_path / name).write_text(SPACE)
    files = [str(tmp_path / "one.csv"), str(tmp_path / "two&<.csv")]
    plot = tmp_path / "curves.svg"
    code, out, err = tune(capsys, "simulate", *files, "--trials", "8", "--seeds", "2", "--plot", str(plot))
    assert code == 0, err
    assert "geometric mean" in out
    assert out.count("8 evaluations") == 2
    drawn = ET.fromstring(plot.read_text())
    lines = [each for each in drawn.iter() if each.get("id", "").startswith("median ")]
    assert [len(re.findall("[ML] ", line[0].get("d", ""))) for line in lines] == [8, 8]
    assert " two&<" in [each.text for each in drawn.iter() if each.tag.endswith("text")]


def test_picture_without_matplotlib_names_the_extra(capsys, tmp_path, monkeypatch):
    (tmp_path / "space.csv").write_text(SPACE)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for kind in ("svg", "png"):
        code, _, err = tune(capsys, "simulate", str(tmp_path / "space.csv"), "--plot", f"{tmp_path}/curves.{kind}")
        assert (code, err.count("\n")) == (2, 1)
        assert "needs matplotlib, which is not installed; pip install 'tuner[plot]'" in err


def test_curves_of_spaces_with_odd_names_are_all_named(tmp_path):
    runs = [Curve(ratios=np.array([3.0, 1.5, 1.0]), proposals=np.zeros(3), compiling=np.zeros(3))]
    names = ["_hidden", "$a$b", *(f"space {number}" for number in range(9))]
    write_picture(tmp_path / "curves.png", curve_figure("title", dict.fromkeys(names, runs)))
    write_picture(tmp_path / "curves.svg", curve_figure("title", dict.fromkeys(names, runs)))
    texts = [each.text or "" for each in ET.parse(tmp_path / "curves.svg").iter() if each.tag.endswith("text")]
    assert [text.strip() for text in texts if text.startswith(" ")] == names
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_simulate_counts_compile_seconds_and_noise_when_asked(capsys, tmp_path):
    file = tmp_path / "timed.csv"
    file.write_text("x,time_ms,rel_std,compile_ms\n" + "".join(f"{x},{x},0.01,2000\n" for x in range(1, 7)))
    arguments = ("simulate", str(file), "--sampler", "grid", "--seeds", "1", "--trials", "6")
    code, out, _ = tune(capsys, *arguments, "--noise", "--json")
    score = json.loads(out)["scores"][0]
    assert (code, score["compile_s"]) == (0, 2 * score["to_1"])
    assert "compile s" in tune(capsys, *arguments, "--compile-times")[1]
    assert "compile s" not in tune(capsys, *arguments)[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Missing argument 'SPACE...'"),
        (("SPACE", "--batch", "0"), "--batch 0: nothing to replay"),
        (("SPACE", "--trials", "-1"), "--trials -1: nothing to replay"),
        (("SPACE", "--sampler", "luck"), "sampler 'luck' is unknown; there are: surrogate"),
        (("SPACE", "--plot", "curves.gif"), "--plot curves.gif: '.gif' is not a kind of plot"),
        (("SPACE", "--plot", "nowhere/curves.svg"), "folder nowhere does not exist"),
        (("none.csv",), "tune: recorded space none.csv: cannot be read (No such file or directory); give a recording"),
        (("SPACE", "--plot", "folder.svg"), "--plot folder.svg is a folder; give a file"),
    ],
)
def test_bad_simulate_is_one_line(capsys, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.csv").write_text(SPACE)
    (tmp_path / "folder.svg").mkdir()
    given = [str(tmp_path / "space.csv") if each == "SPACE" else each for each in arguments]
    code, _, err = tune(capsys, "simulate", *given)
    assert (code, err.count("\n")) == (2, 1)
    assert says in err


def test_bad_only_on_the_command_line_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = tune(capsys, "run", *SMALL, "--only", "TILE=3", "--device", "cpu")
    assert (code, err.count("\n")) == (2, 1)
    assert "no parameter 'TILE'" in err
    assert list(tmp_path.iterdir()) == []
