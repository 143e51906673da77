"""What was stored, recorded or typed with the parameters' former names is read by today's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from toy_store import ENVIRONMENT, sql, toy_key, toy_ok

from tuner.errors import UsageError
from tuner.kernels.loading import builtin_templates
from tuner.kernels.renames import CHOICES, NAMES, current_values, former_values
from tuner.kernels.subspace import Restriction
from tuner.kernels.template import Configuration
from tuner.problems.conv.layers import LAYERS
from tuner.recordings.space import load_recorded
from tuner.storage import Store
from tuner.storage.mapping import choices_of_templates, configuration_of, keys_of

TEMPLATES = builtin_templates()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_new_name_is_a_parameter_and_every_new_word_a_choice(name: str) -> None:
    choices = {each.name: each.choices for each in TEMPLATES[name].parameters}
    for before, now in NAMES[name].items():
        assert before not in choices
        assert set(current_values(name, dict.fromkeys([before], None))) == {now}
        words = [now_word for word, now_word in CHOICES.get(before, {}).items()]
        assert not words or set(choices[now]) & set(words)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_former_names_lead_to_the_same_configuration(name: str) -> None:
    configuration = TEMPLATES[name].configuration({})
    before = former_values(name, configuration.as_dict())
    assert set(before) & set(NAMES[name])
    assert current_values(name, before) == configuration.as_dict()
    assert configuration_of(name, json.dumps(list(before.items()))) == configuration
    assert len(keys_of(configuration)) == 2


def test_names_of_other_templates_stay() -> None:
    assert current_values("mine", {"STAGING": "async"}) == {"STAGING": "async"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("STAGING=plain", "COPY_BY=register"),
        ("STAGING=async,register", "COPY_BY=cp_async,register"),
        ("SHIFTS=2,4 OPERANDS=tf32x3", "PIXELS_PER_ROW=2,4 MMA_TYPE=tf32x3"),
        ("WRITES=exchange,rows", "EPILOGUE=shuffle,shared"),
    ],
)
def test_only_takes_former_names(typed: str, meant: str) -> None:
    choices = choices_of_templates(tuple(TEMPLATES.values()))
    assert str(Restriction.parse([typed], choices)) == meant


def test_former_word_of_a_name_of_today_is_no_choice() -> None:
    with pytest.raises(UsageError, match="'plain' is not a choice; there are: register cp_async"):
        Restriction.parse(["COPY_BY=plain"], choices_of_templates(tuple(TEMPLATES.values())))


def test_recording_with_former_names_is_of_todays_template(tmp_path: Path) -> None:
    text = "template,STAGING,TILE_W,time_ms\nregister_tile,plain,1,2.0\nregister_tile,async,2,1.0\n"
    path = tmp_path / "old.csv"
    path.write_text(text)
    found = load_recorded(path).candidates
    assert {axis.name: axis.choices for axis in found.axes} == {"COPY_BY": ("register", "cp_async"), "TILE_W": (1, 2)}
    assert found.firsts  # it is known as ours


@pytest.mark.parametrize("path", sorted(Path("studies").glob("*.csv.gz")), ids=lambda path: path.name)
def test_recordings_of_this_repository_are_of_todays_templates(path: Path) -> None:
    found = load_recorded(path).candidates
    assert set(found.firsts) == set(found.names)
    former = {before for name in found.names for before in NAMES.get(name, {})}
    assert not {axis.name for axis in found.axes} & former


def test_store_with_former_names_shows_todays(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    template = TEMPLATES["register_tile"]
    configuration = template.configuration({"COPY_BY": "cp_async"})
    with Store.open(str(path)) as store:
        handle = store.study(toy_key(), ENVIRONMENT, [template])
        handle.record(replace(toy_ok(0), configuration=configuration))
    before = Configuration(
        template=template.name, values=tuple(former_values(template.name, configuration.as_dict()).items())
    )
    with sql(path) as database:
        database.execute(
            "UPDATE tuner_result SET key = ?, configuration = ?",
            (before.key, json.dumps(before.values, separators=(",", ":"))),
        )
        (choices,) = database.execute("SELECT distributions FROM tuner_study").fetchone()
        old = json.loads(choices)
        old["STAGING"] = ["plain", "async"]
        del old["COPY_BY"]
        database.execute(
            "UPDATE tuner_study SET distributions = ?, templates = ?", (json.dumps(old), '["register_tile"]')
        )
    with Store.open(str(path), create=False) as store:
        handle = store.find_study(LAYERS["sp18/conv2"].name)
        (result,) = handle.results()
        assert result.configuration == configuration
        assert handle.trial_number(configuration) == 0
        assert handle.choices["COPY_BY"] == ("register", "cp_async")
        assert "STAGING" not in handle.choices
