"""``--explain``: the parameters that matter come first, a model's predictions stand beside what was measured."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from command import SMALL, tune
from toy_store import ENVIRONMENT, OTHER, TEMPLATES, changed, timed, toy_configuration, toy_key, toy_ok

from tuner.cli.support.explanation import explanation_markdown
from tuner.errors import UsageError
from tuner.report.explain import HEIGHT, WIDTH, explain, scatter
from tuner.results import Measurement, Result
from tuner.storage import Store
from tuner.storage.mapping import choices_of_templates

CHOICES = choices_of_templates(TEMPLATES)


def seconds(number: int) -> float:
    """A time that the width decides, padding nudges, and the layout does not touch."""
    values = toy_configuration(number).as_dict()
    return 1e-3 * (1 + abs(math.log2(int(values["TILE_WIDTH"]) / 16)) + 0.004 * int(values["PADDING"]))


RESULTS = [toy_ok(number, seconds(number), pruned=number % 7 == 0) for number in range(0, 384, 5)]


def other(width: int, vector: int, median: float) -> Result:
    chosen = OTHER.configuration({"TILE_WIDTH": width, "VECTOR": vector})
    return timed(chosen, median, median, fingerprint=f"{width} {vector}")


@pytest.fixture
def stored(tmp_path):
    url = f"sqlite:///{tmp_path}/tuner.db"
    with Store.open(url) as store:
        store.study(toy_key(), ENVIRONMENT, TEMPLATES).record_all([*RESULTS, other(4, 2, 5e-3)])
        store.study(toy_key("sp18/conv1"), ENVIRONMENT, TEMPLATES).record_all(RESULTS[:4])
    return url


def test_parameter_that_decides_comes_first():
    explained = explain("s", RESULTS, CHOICES)
    first, *_, last = explained.influences
    assert (first.name, first.best, first.other) == ("TILE_WIDTH", 16, 8)
    assert first.importance is not None
    assert first.importance > 0.5
    assert first.slower == pytest.approx(1.0, rel=0.2)
    assert last.name in ("GRID_LAYOUT", "PADDING")
    assert sum(each.importance or 0 for each in explained.influences) == pytest.approx(1)


def test_model_predicts_what_the_parameters_decide():
    explained = explain("s", RESULTS, CHOICES)
    assert len(explained.measured) == len(explained.predicted) == len(RESULTS)
    assert explained.rank_correlation > 0.9
    assert explained.median_error < 0.05


def test_model_of_chance_is_not_praised():
    random = np.random.default_rng(0)
    noise = [toy_ok(number, float(np.exp(random.normal())) * 1e-3) for number in range(0, 384, 5)]
    assert explain("s", noise, CHOICES).rank_correlation < 0.4


def test_template_stands_first_where_there_are_several():
    slower = [other(4, 1, 4e-3), other(8, 2, 3e-3)]
    explained = explain("s", [*RESULTS, *slower], CHOICES)
    template = explained.influences[0]
    assert (template.name, template.best, template.other, template.importance) == ("template", "toy", "other", None)
    fastest = min(result.seconds for result in RESULTS)
    assert template.slower == pytest.approx(3e-3 / fastest - 1)
    assert explained.trials == len(RESULTS)


def test_plot_stays_within_its_frame():
    lines = scatter(explain("s", RESULTS, CHOICES)).splitlines()
    assert len(lines) == HEIGHT + 3
    assert max(map(len, lines)) <= WIDTH + 11
    assert sum(line.count("o") for line in lines[1 : HEIGHT + 1]) > 5


def test_constant_times_are_explained_without_a_warning():
    flat = [changed(toy_ok(number), measurement=Measurement(samples=(1e-3,))) for number in range(12)]
    explained = explain("s", flat, CHOICES)
    assert explained.rank_correlation == 0
    assert "nan" not in scatter(explained)


def test_too_few_trials_are_one_line(capsys, stored):
    with pytest.raises(UsageError, match="study 's': 4 timed trials of one template explain nothing; at least 10"):
        explain("s", RESULTS[:4], CHOICES)
    code, _, err = tune(capsys, "show", "conv1", "--explain", "--storage", stored)
    assert (code, err.count("\n")) == (0, 1)


def test_show_explains_in_text_and_json(capsys, stored):
    code, out, err = tune(capsys, "show", "conv2", "--explain", "--storage", stored)
    assert code == 0, err
    assert f"what matters, from {len(RESULTS)} trials of toy" in out
    assert "predicted ms" in out
    assert max(len(line) for line in out.split("what matters")[1].splitlines()) <= 80
    code, out, _ = tune(capsys, "show", "conv2", "--explain", "--json", "--storage", stored)
    explained = json.loads(out)["explain"]
    assert explained["parameters"][1]["name"] == "TILE_WIDTH"
    assert len(explained["measured_ms"]) == len(RESULTS) + 1
    assert "explain" not in json.loads(tune(capsys, "show", "conv2", "--json", "--storage", stored)[1])


def test_markdown_has_a_row_for_each_parameter():
    text = explanation_markdown(explain("s", RESULTS, CHOICES))
    assert text.count("\n| ") == 1 + 3
    assert "```text\npredicted ms" in text


def test_run_explains_and_writes_the_note(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ("run", *SMALL, "--device", "cpu", "--sampler", "grid", "--explain")
    code, _, err = tune(capsys, *given, "--trials", "1", "--only", "CONST_K=1 UNROLL=1")
    assert code == 0
    assert "nothing explained: study" in err
    code, out, _ = tune(capsys, *given, "--trials", "12", "--only", "UNROLL=1")
    assert code == 0
    assert "what matters, from " in out
    with Store.open("sqlite:///studies/tuner.db") as store:
        note = store.find_study("C2H12W11M3K3").read_note()
    assert note.startswith("# C2H12W11M3K3")
    assert "## What matters, from " in note
