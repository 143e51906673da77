"""``tuner.tune``: from a script without a guard, from standard input, with the command's defaults."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import tuner
from tuner import ConvLayer, Observer, RunOptions, UsageError, tune

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
SIZES = "c=2,h=12,w=11,m=3,k=3,b=9"


class Watcher(Observer):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.trials = 0

    def says(self, line: str) -> None:
        self.lines.append(line)

    def trial(self, result: tuner.Result, progress: tuner.Progress) -> None:
        self.trials += 1


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run six trials from Python; return the report, who watched and the store."""
    store, watcher = tmp_path_factory.mktemp("called") / "t.db", Watcher()
    report = tune(SIZES, watcher, device="cpu", trials=6, templates="direct", storage=store)
    return report, watcher, store


def test_report_has_the_best_and_prints_it(finished):
    report, watcher, _ = finished
    winner = report.winner
    assert winner is not None
    assert winner.confirmed
    assert report.best[0].result is winner
    assert watcher.trials == 6
    name, configuration = str(report).splitlines()
    assert name.startswith(f"{report.progress.study}: {winner.seconds * 1e3:.4g} ms +- ")
    assert configuration == str(winner.configuration)
    assert repr(report) == str(report)


def test_call_again_goes_on(finished):
    _, _, store = finished
    report = tune(SIZES, device="cpu", trials=1, templates=["direct"], storage=str(store))
    assert (report.progress.known, report.progress.done) == (6, 1)


@pytest.mark.parametrize("layer", ["conv2", tuner.find_layer("conv2")], ids=["by name", "as it is"])
def test_defaults_are_those_of_the_command(monkeypatch, tmp_path, layer):
    from tuner.cli import _run

    asked: list[RunOptions] = []

    def remember(options, *_):
        asked.append(options)
        raise UsageError("enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORAGE", "my.db")
    monkeypatch.setattr("tuner.api.run_study", remember)
    monkeypatch.setattr("tuner.tuning.tune", remember)
    with pytest.raises(UsageError, match="enough"):
        tune(layer, device="cpu")
    assert _run(["run", "conv2", "--device", "cpu"]) == 2
    by_call, by_command = asked
    unlike = {"templates"} | ({"problem"} if isinstance(layer, ConvLayer) else set())
    for name in RunOptions.__dataclass_fields__.keys() - unlike:
        assert getattr(by_call, name) == getattr(by_command, name), name
    assert [each.name for each in by_call.templates] == [each.name for each in by_command.templates]
    assert by_call.storage == "my.db"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"problem": "conv9"}, "layer 'conv9' is unknown"),
        ({"device": "gpu"}, "device 'gpu' is unknown"),
        ({"precision": "fp8"}, "precision 'fp8' is unknown"),
        ({"sampler": "magic"}, "sampler 'magic' is unknown"),
        ({"templates": "fast"}, "template 'fast' is unknown"),
        ({"trials": 0}, "above 0"),
        ({"storage": "nowhere/t.db"}, "folder nowhere does not exist"),
    ],
)
def test_what_cannot_be_is_named(monkeypatch, tmp_path, given, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=words):
        tune(**{"problem": "conv2", "device": "cpu", **given})
    assert list(tmp_path.iterdir()) == []


def test_former_keyword_means_the_same():
    with pytest.raises(UsageError, match="layer 'conv9' is unknown"):
        tune(layer="conv9", device="cpu")
    with pytest.raises(UsageError, match="give one problem"):
        tune()
    with pytest.raises(UsageError, match="give one problem"):
        tune("conv1", layer="conv2")


def test_other_kinds_take_their_own_templates(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tuner.api.run_study", lambda options, _: options)
    asked: Any = tune("gemm:N=20,K=12", Observer(), device="cpu")
    assert {template.problem for template in asked.templates} == {"gemm"}


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_first_example_of_the_page_runs_as_it_stands(tmp_path, how):
    """On a small layer, since its own takes a while; without a ``__main__`` guard."""
    text = PAGE.read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:1]
    assert '"conv2"' in example
    script = example.replace('"conv2"', f'"{SIZES}"').replace("trials=20", "trials=4")
    (tmp_path / "example.py").write_text(script)
    given = ["example.py"] if how == "file" else ["-"]
    done = subprocess.run(
        [sys.executable, *given],
        cwd=tmp_path,
        input=script if how == "stdin" else "",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"C2H12W11M3K3 cpu B9 fp32 \w{6}: \S+ ms \+- ", done.stdout)
    assert (tmp_path / "studies" / "tuner.db").exists()


def test_public_names_are_there_and_typed():
    assert set(tuner.__all__) <= set(dir(tuner))
    assert all(getattr(tuner, name) is not None for name in tuner.__all__)
    assert {"Observer", "Progress", "RankedResult", "Report", "Standing", "tune"} <= set(tuner.__all__)
    assert tuner.Standing is tuner.RankedResult
    assert typing.get_type_hints(tune)["return"] is tuner.Report
    assert Path(tuner.__file__).with_name("py.typed").exists()


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, tuner; dir(tuner); print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "optuna", "sqlalchemy", "pyopencl", "pycuda", "rich", "click"):
        assert f"'{heavy}'" not in out
