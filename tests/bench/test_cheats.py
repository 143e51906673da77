"""No cheat wins, and none harms another's result: whatever it counts on cannot be counted on."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from cheats import CHEATS, HONEST, REMEMBERS, ROUNDED, cheating
from small_run import run

from tuner.bench.trial import Trial
from tuner.errors import TunerError
from tuner.export.export import export_best
from tuner.export.proof import left_over
from tuner.kernels.limits import CUDA
from tuner.problems.conv.layers import find_layer
from tuner.storage import Store

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]
LONG = find_layer("C=256,H=12,W=12,M=2,K=11", batch=3)


def outcomes(folder, report) -> dict[str, str]:
    """Return the outcome of each choice."""
    with Store.open(f"sqlite:///{folder}/tuner.db") as store:
        results = store.find_study(report.progress.study).results()
    return {str(each.configuration.as_dict()["CHEAT"]): each.outcome for each in results}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("group", CHEATS)
def test_nobody_wins_by_counting_on(tmp_path, group, device):
    report = run(tmp_path, cheating(*CHEATS[group]), device=device)
    assert report.reason == "exhausted"
    assert report.winner is not None
    found = outcomes(tmp_path, report)
    believed = [cheat for cheat in CHEATS[group] if found[cheat] == "ok"]
    assert report.winner.configuration.as_dict()["CHEAT"] == HONEST, (found, believed)
    assert found[HONEST] == "ok"
    assert believed == []


@pytest.mark.parametrize("device", DEVICES)
def test_rounded_sums_of_many_terms_are_not_fp32(tmp_path, device):
    report = run(tmp_path, cheating(*ROUNDED), problem=LONG, device=device)
    found = outcomes(tmp_path, report)
    assert found == {HONEST: "ok"} | dict.fromkeys(ROUNDED, "wrong_result")


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A store with one honest winner, its study, and the template."""
    folder = tmp_path_factory.mktemp("honest")
    return folder, run(folder, cheating("kept_once")).progress.study


def export(folder, study, template):
    return export_best(study, folder / "winner.h", f"sqlite:///{folder}/tuner.db", (template,))


def test_export_writes_the_time_it_measured(honest):
    folder, study = honest
    done = export(folder, study, cheating("kept_once"))
    assert done.evaluation.measurement is not None
    text = (folder / "winner.h").read_text()
    assert f"{done.evaluation.measurement.median * 1e3:.4g} ms (median of" in text
    assert "times that of a plain FP32 kernel" in text


def test_time_edited_in_the_store_is_not_exported(honest, tmp_path):
    folder, study = honest
    shutil.copy(folder / "tuner.db", tmp_path)
    with closing(sqlite3.connect(tmp_path / "tuner.db")) as store:
        for number, samples in store.execute("select result_id, seconds from tuner_sample").fetchall():
            faster = json.dumps([each / 100 for each in json.loads(samples)])
            store.execute("update tuner_sample set seconds = ? where result_id = ?", (faster, number))
        store.execute("update tuner_result set median = median / 100")
        store.commit()
    with pytest.raises(TunerError, match="stand in the store; nothing is written"):
        export(tmp_path, study, cheating("kept_once"))
    assert not (tmp_path / "winner.h").exists()


def test_what_is_included_by_a_macro_cannot_be_exported(tmp_path):
    (tmp_path / "more.cuh").write_text("#define MORE 0.0f\n")
    source = f'#define FILE "{tmp_path}/more.cuh"\n#include FILE\n'
    plain = cheating("kept_once")
    template = replace(plain, source=source + plain.source)
    report = run(tmp_path, template)
    assert report.winner is not None
    with pytest.raises(TunerError, match="includes FILE, which no header can hold"):
        export(tmp_path, report.progress.study, template)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("#include FILE", "FILE"),
        ("#include </tmp/more.cuh>", "</tmp/more.cuh>"),
        ("# include <../../tmp/more.cuh>", "<../../tmp/more.cuh>"),
        ("%:include_next /* of this machine */ FILE", "FILE"),
        ("#in\\\nclude FILE", "FILE"),
        ('#embed "weights.bin"', '"weights.bin"'),
        ("#include <mma.h>", ""),
        ("float including = 0.0f;", ""),
    ],
)
def test_what_only_this_machine_has_is_found_in_a_text(line, left):
    assert left_over(f"int before;\n{line}\nint after;\n", CUDA) == left


@pytest.mark.parametrize("device", DEVICES)
def test_results_kept_by_contents_count_with_the_time_of_new_contents(tmp_path, device):
    report = run(tmp_path, cheating(REMEMBERS), device=device)
    assert report.winner is not None
    assert report.winner.configuration.as_dict()["CHEAT"] == HONEST


@pytest.mark.parametrize("device", DEVICES)
def test_memory_of_its_own_has_to_be_declared(tmp_path, device):
    """A kernel can count its launches there, and go wrong after more of them than any check makes."""
    report = run(tmp_path, replace(cheating("kept_once"), static_memory=False), device=device)
    assert report.winner is None
    assert set(outcomes(tmp_path, report).values()) == {"infeasible"}
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as store:
        text = store.find_study(report.progress.study).results()[0].text
    assert re.match(
        r"the kernel keeps \d[\d,]* bytes of its own from launch to launch, .* or declare static_memory", text
    )


class Steps(Trial):
    """A trial that takes what it is told to, on the real inputs and on others."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)

    def sample(self, inputs: object = None) -> float:
        return self.seconds.pop(0)

    def fresh_sample(self, second: object) -> float:
        return self.seconds.pop(0)


@pytest.mark.parametrize(
    ("seconds", "pairs"),
    [
        ((1.0, 2.0) * 5, ((1.0, 2.0),) * 5),
        ((1.0, 2.0) * 4 + (2.0, 2.0), ()),  # the device was busy before
    ],
)
def test_time_depends_on_the_data_when_it_does_each_time(seconds, pairs):
    others: Any = None  # no launch reads them
    assert Steps(*seconds).depends_on_data(others, real=1.0, spread=0.0, fresh=2.0) == pairs
    assert Steps().depends_on_data(others, real=1.0, spread=0.0, fresh=1.05) == ()


def test_there_are_forty_cheats():
    assert len({cheat for group in CHEATS.values() for cheat in group} | set(ROUNDED)) >= 40
