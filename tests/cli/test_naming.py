"""How commands, studies and layers are named: as an argument or an option, in either case, in part."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tuner.cli import _run, cli
from tuner.errors import UsageError
from tuner.problems.conv.layers import find_layer
from tuner.storage import Store
from tuner.storage.lookup import pick_study, short_name
from tuner.storage.schema import StudyRow

TUNE = [sys.executable, "-m", "tuner"]
NAMES = (
    ("sp18/conv2", "sp18/conv2 cpu B50 fp32 3fa9c1"),
    ("sp18/conv2", "sp18/conv2 cuda B10000 fp16 77e0a2"),
    ("fa18/conv1", "fa18/conv1 cpu B5 fp32 9ab3de"),
    ("C8H9W9M3K3", "C8H9W9M3K3 cpu B20 fp32 0c11ff"),
)
ROWS = [
    StudyRow(
        name=name,
        digest=f"{name[-6:]}00",
        problem=layer,
        optuna_id=number,
        sizes=f'{{"B": {name.split(" B")[1].split()[0]}}}',
    )
    for number, (layer, name) in enumerate(NAMES, start=1)
]


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("empty") / "t.db")
    Store.open(path).close()
    return path


def tune(capsys, *arguments):
    code = _run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("arguments", [(), ("help",), ("-h",), ("--help",)])
def test_help_names_every_command_once(capsys, arguments):
    code, out, err = tune(capsys, *arguments)
    assert (code, err) == (0, "")
    listed = [line.split()[0] for line in out.split("Commands:")[1].splitlines() if line.strip()]
    assert listed == list(cli.commands)
    assert "..." not in out.split("Commands:")[1]
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", list(cli.commands))
def test_help_of_a_command_is_that_of_its_option(capsys, name):
    _, by_option, _ = tune(capsys, name, "--help")
    code, by_command, _ = tune(capsys, "help", name.upper())
    assert (code, by_command) == (0, by_option)


def test_version_has_a_short_option(capsys):
    assert tune(capsys, "-V") == tune(capsys, "--version")


@pytest.mark.parametrize("arguments", [("shwo",), ("help", "shwo"), ("SHWO",)])
def test_misspelt_command_is_answered_with_the_near_one(capsys, arguments):
    code, _, err = tune(capsys, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert err.endswith("is unknown; did you mean 'show'?\n")


@pytest.mark.parametrize(
    "text", ["C=8,H=9,W=7,M=3,K=3", "c=8,h=9,w=7,m=3,k=3", "c=8, H=9, w = 7, M=3, k=3"], ids=["upper", "lower", "both"]
)
def test_sizes_are_read_in_either_case(text):
    assert find_layer(text, 5) == find_layer("C=8,H=9,W=7,M=3,K=3,B=5")


@pytest.mark.parametrize("text", ["conv2", "CONV2", "sp18/conv2", "SP18/Conv2"])
def test_layers_are_named_in_either_case(text):
    assert find_layer(text).name == "sp18/conv2"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("sp18/conv2 cpu B50 fp32 3fa9c1", 1),
        ("SP18/CONV2 CPU B50 FP32 3FA9C1", 1),
        ("2", 2),
        ("conv2", 2),
        ("Conv2", 2),
        ("fa18/CONV1", 3),
        ("conv1", 3),
        ("c8h9w9m3k3", 4),
        ("c=8,h=9,m=3,k=3", 4),
        ("conv2 cpu", 1),
        ("conv2 FP16", 2),
        ("3fa9", 1),
        ("9AB3DE", 3),
        ("sp18/conv2 cu", 2),
    ],
)
def test_study_is_found_by(text, number):
    assert pick_study(text, ROWS, "here").row.optuna_id == number


@pytest.mark.parametrize("text", ["cpu", "sp18/conv2 c", "fp32 cpu"])
def test_ambiguous_study_lists_those_it_could_be(text):
    with pytest.raises(UsageError, match=r"^study '.*' could be '.*', '.*'; give more of its name$"):
        pick_study(text, ROWS, "here")


@pytest.mark.parametrize("number", range(1, 5))
def test_short_name_finds_its_study(number):
    layers = [(row.name, row.problem) for row in ROWS]
    short = short_name(ROWS[number - 1].name, layers)
    assert pick_study(short, ROWS, "here").row.optuna_id == number
    assert short == ("3fa9c1", "77e0a2", "fa18/conv1", "C8H9W9M3K3")[number - 1]


def test_renamed_study_is_found_by_its_digest_and_shown_by_its_name():
    renamed = StudyRow(name="my best", digest="ab12cd9", problem="sp18/conv2", optuna_id=9, sizes='{"B": 50}')
    assert pick_study("ab12cd", [*ROWS, renamed], "here").row is renamed
    assert short_name("my best", [(row.name, row.problem) for row in (*ROWS, renamed)]) == "my best"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "run: no problem named; give one, such as tune run conv2"),
        (("show",), "show: no study named; give one, such as tune show conv2"),
        (("best",), "best: no study named"),
        (("compare",), "compare: no study named"),
        (("record",), "record: no study named"),
        (("replay",), "replay: no trial named; give a study and a trial, such as tune replay conv2 17"),
        (("replay", "conv2"), "replay: no trial of 'conv2' named; give its number, such as tune replay conv2 17; "),
        (("replay", "17"), "replay: no study named"),
        (("run", "conv2", "--layer", "conv1"), "run: 'conv2' and 'conv1' name a problem each; give one"),
        (("show", "conv2", "--study", "3"), "show: 'conv2' and '3' name a study each; give one"),
        (("completion", "tcsh"), "completion: shell 'tcsh' is unknown; there are: bash, zsh, fish"),
    ],
)
def test_what_is_not_named_is_one_line(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = tune(capsys, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert words in err


@pytest.mark.parametrize("command", ["show", "best", "export", "compare", "record", "verify"])
@pytest.mark.parametrize(
    "named", [("my study",), ("my", "study"), ("--study", "my study"), ("--layer", "my study")], ids=str
)
def test_study_is_an_argument_or_an_option_of(capsys, empty_store, command, named):
    code, _, err = tune(capsys, command, *named, "--storage", empty_store)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("tune: study 'my study': storage ")
    assert "has no studies" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(capsys, shell):
    code, out, _ = tune(capsys, "completion", shell)
    assert code == 0
    assert "_TUNE_COMPLETE" in out


@pytest.mark.parametrize(
    ("line", "offered"),
    [("tune sh", {"show"}), ("tune show fa2", {"fa20/conv1", "fa20/conv2"}), ("tune run --la", {"--layer"})],
)
def test_shell_completes(line, offered):
    words = line.split()
    asked = {**os.environ, "_TUNE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(TUNE, env=asked, capture_output=True, text=True, check=False)
    assert {each.partition(",")[2] for each in done.stdout.split()} == offered, done.stderr


def edited(*names: str) -> list[StudyRow]:
    return [
        StudyRow(id=number, name=name, digest=name[-6:], problem="sp18/conv2", optuna_id=number, sizes='{"B": 50}')
        for number, name in enumerate(names, start=1)
    ]


EDITED = edited(*(f"mine@sp18/conv2 cpu B50 fp32 {digest}" for digest in ("1111aa", "2222bb", "3333cc")))


@pytest.mark.parametrize("text", ["mine", "mine@", "Mine", "mine@conv2", "conv2", "mine@sp18/conv2 cpu B50"])
@pytest.mark.parametrize(("won", "number"), [({1, 2}, 2), ({1}, 1), (set(), 3), ({1, 2, 3}, 3)])
def test_newest_study_with_a_winner_is_meant_and_said(text, won, number):
    picked = pick_study(text, EDITED, "here", lambda: won)
    assert picked.row.optuna_id == number
    assert picked.why.startswith(f"'{text}' is taken for '{picked.row.name}': the newest of 3")
    assert ("none has a verified winner" in picked.why) is (not won)


@pytest.mark.parametrize("text", ["mine", "conv2"])
def test_name_of_several_studies_is_refused_where_there_may_be_no_choice(text):
    with pytest.raises(UsageError, match=r"could be .*; give more of its name"):
        pick_study(text, EDITED, "here", sole=True)
    assert pick_study("2222bb", EDITED, "here", sole=True).row is EDITED[1]


def test_template_with_several_layers_is_ambiguous():
    other = StudyRow(
        name="mine@fa18/conv1 cpu B9 fp32 4444dd", digest="4444dd", problem="fa18/conv1", optuna_id=4, sizes='{"B": 9}'
    )
    with pytest.raises(UsageError, match="could be"):
        pick_study("mine", [*EDITED, other], "here")


def test_only_study_is_meant_without_a_word():
    assert pick_study("mine", EDITED[:1], "here").why == ""
    assert pick_study(EDITED[1].name, EDITED, "here").why == ""
