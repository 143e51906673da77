"""The command line as a user meets it: exit codes, one-line errors, nothing written for bad input."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import SMALL, TUNE, tune
from toy_store import sql

from tuner.bench.worker import Worker
from tuner.cli.replay import _print
from tuner.doctor import Finding
from tuner.results import Evaluation


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a small finished study on the CPU, made by the real command."""
    folder = tmp_path_factory.mktemp("finished")
    done = subprocess.run(
        [*TUNE, "run", *SMALL, "--trials", "12", "--device", "cpu"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_help_imports_nothing_heavy():
    """What it loads decides how soon it comes: ``tests/benchmarks/limits.py`` holds the clock to it."""
    code = "import sys; from tuner.cli import _run; _run(['--help']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(out.splitlines()[-1].split())
    heavy = {"numpy", "scipy", "optuna", "sqlalchemy", "pyopencl", "pycuda", "rich", "multiprocessing", "asyncio"}
    assert not heavy & loaded
    assert len(loaded) < 200, sorted(loaded)


def test_every_command_has_help(capsys):
    from tuner.cli import cli

    for name in cli.commands:
        code, out, _ = tune(capsys, name, "--help")
        assert code == 0
        assert len(out.split("Options:")[0]) > 40, name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--layer", "conv3"], ["'conv3' is unknown; give one", "or sizes", "; did you mean 'conv2'?\n"]),
        (["run", "--layer", "lenet"], ["'lenet' is unknown", "there are: fa17/conv1, sp18", "and 5 more\n"]),
        (["run", "--layer", "conv2", "--sampler", "surogate"], ["'surogate' is unknown; did you mean 'surrogate'?"]),
        (["run", "--layer", "conv2", "--device", "gpu"], ["'gpu' is unknown", "auto, cpu, cuda"]),
        (["run", "--layer", "C=1,H=8,M=1,K=9"], ["K=9 is larger than the input's H=8", "at most 8"]),
        (["run", "--layer", "conv2", "--batch", "0"], ["B=0 is below 1"]),
        (["run", "--layer", "C=1,H=8,K=3"], ["M missing"]),
        (["run", "--layer", "conv2", "--trials", "0"], ["--trials 0", "above 0"]),
        (["run", "--layer", "conv2", "--time", "0s"], ["--time 0", "above 0"]),
        (["run", "--layer", "conv2", "--time", "soon"], ["'soon' is not a time", "60s"]),
        (["run", "--layer", "conv2", "--sampler", "magic"], ["'magic' is unknown", "random"]),
        (["run", "--layer", "conv2", "--template", "fast"], ["'fast' is unknown", "direct"]),
        (["run", "--layer", "conv2", "--template", "./mine.py"], ["there is no file", "NAME.py beside NAME.cu"]),
        (["run", "--layer", "conv2", "--data", "nowhere"], ["nowhere"]),
        (["run", "--layer", "conv2", "--storage", "nowhere/t.db"], ["folder nowhere does not exist"]),
        (["run", "--layer", "conv2", "--seed", "-1"], ["--seed -1", "give 0 to 4294967295"]),
        (["run", "--layer", "conv2", "--jobs", "99999"], ["--jobs 99999", "a core", "give at most"]),
        (["run"], ["--layer"]),
        (["show", "conv2", "--top", "0"], ["--top 0: nothing could be shown", "above 0"]),
        (["show", "conv2", "--top", "x"], ["'x' is not a valid integer", "see tune show --help"]),
        (["run", "--layer", "C=9,H=66000,M=9,K=3", "--device", "cpu"], ["an int counts to 2,147,483,647; give"]),
        (
            ["run", "--layer", "conv2", "--template", "tensor_core", "--device", "cpu"],
            ["no valid", "another --template"],
        ),
        (["run", "--layer", "conv2", "--data", "."], ["data .: neither", "give a directory"]),
        (["record", "conv2", "-o", "x.txt"], ["'.txt' is not a kind of recording; give a .csv"]),
        (["export", "mine", "--layer", "conv2"], ["'mine' and 'conv2'", "give one"]),
        (["fly"], ["fly"]),
        (["show", "conv2"], ["does not exist", "tune run"]),
        (["best", "conv2"], ["does not exist"]),
        (["list"], ["does not exist"]),
        (["export", "--layer", "conv2", "-o", "x.h"], ["does not exist"]),
        (["export"], ["no study named"]),
        (["run", "--layer", "conv2", "--precision", "fp8"], ["'fp8' is unknown", "fp32, tf32, fp16, bf16"]),
        (["verify", "--study", "conv2"], ["does not exist", "tune run"]),
        (["verify", "--network", "lenet"], ["'lenet' is unknown", "sp18"]),
    ],
)
def test_bad_input_is_one_line_with_exit_two_and_writes_nothing(capsys, here, arguments, words):
    code, _, err = tune(capsys, *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for word in words:
        assert word in err
    assert list(here.iterdir()) == []


@pytest.mark.skipif("pycuda" in sys.modules, reason="PyCUDA is installed here")
def test_cuda_without_pycuda_says_how_to_install_it(capsys, here):
    pytest.importorskip("pyopencl")
    try:
        import pycuda.driver  # noqa: F401

        pytest.skip("PyCUDA works here")
    except ImportError:
        pass
    code, _, err = tune(capsys, "run", "--layer", "conv2", "--device", "cuda")
    assert code == 2
    assert "pip install '.[cuda]'" in err or "driver" in err
    assert err.count("\n") == 1
    assert list(here.iterdir()) == []


def test_template_with_a_syntax_error_names_file_and_line(capsys, here):
    (here / "mine.cu").write_text("")
    (here / "mine.py").write_text("x = 1\nTEMPLATE = (\n")
    code, _, err = tune(capsys, "run", "--layer", "conv2", "--template", "mine.py")
    assert (code, err.count("\n")) == (2, 1)
    assert "mine.py:2" in err


def test_template_parameter_without_choices_is_named(capsys, here):
    (here / "mine.cu").write_text("")
    (here / "mine.py").write_text("from tuner import Parameter\nParameter(name='UNROLL', choices=(), doc='')\n")
    code, _, err = tune(capsys, "run", "--layer", "conv2", "--template", "mine.py")
    assert (code, err.count("\n")) == (2, 1)
    assert "UNROLL: no choices" in err


def test_store_that_is_not_sqlite_is_refused_and_kept(capsys, here):
    (here / "notes.txt").write_text("my notes, not a database " * 40)
    code, _, err = tune(capsys, "run", *SMALL, "--storage", "notes.txt", "--device", "cpu")
    assert (code, err.count("\n")) == (2, 1)
    assert "not an SQLite database" in err
    assert (here / "notes.txt").read_text().startswith("my notes")


def test_store_of_another_program_is_refused_and_kept(capsys, here):
    with sql(here / "other.db") as other:
        other.execute("create table holidays (day text)")
    code, _, err = tune(capsys, "run", *SMALL, "--storage", "other.db", "--device", "cpu")
    assert (code, err.count("\n")) == (2, 1)
    assert "another program" in err


def test_run_ends_with_best_baselines_and_next_commands(finished):
    _, out = finished
    assert "naive 32x32 (B,M,1)" in out
    assert "12 new trials" in out
    assert re.search(r"tune export --study '.*' -o c9.*_best\.h|tune export", out)
    assert max(len(line) for line in out.splitlines() if not line.startswith(("C2", "  tune", "["))) <= 80


def test_list_show_and_best_read_what_run_wrote(capsys, finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir(folder)
    code, out, _ = tune(capsys, "list", "--json")
    assert code == 0
    (study,) = json.loads(out)
    assert study["trials"] == 12
    code, out, _ = tune(capsys, "show", study["study"], "--json")
    assert (code, len(json.loads(out)["trials"])) == (0, 12)
    code, out, _ = tune(capsys, "show", study["layer"])
    assert code == 0
    assert "naive" in out
    code, out, _ = tune(capsys, "best", study["layer"], "--json")
    assert code == 0
    assert json.loads(out)["confirmed"] is True
    code, out, _ = tune(capsys, "show", study["layer"], "--failures")
    assert code == 0


def test_unknown_study_is_named_with_those_there_are(capsys, finished, monkeypatch):
    monkeypatch.chdir(finished[0])
    code, _, err = tune(capsys, "show", "conv9")
    assert (code, err.count("\n")) == (2, 1)
    assert "conv9" in err


def test_same_command_again_resumes_and_measures_nothing_twice(finished):
    folder, _ = finished
    command = [*TUNE, "run", *SMALL, "--trials", "4", "--device", "cpu", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["known_before"] == 12
    assert report["trials"] == 4
    with sql(folder / "studies" / "tuner.db") as db:
        keys = [row[0] for row in db.execute("select key from tuner_result")]
    assert len(keys) == len(set(keys)) == 16


def test_export_writes_a_header_that_compiles(capsys, finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir(folder)
    code, out, err = tune(capsys, "export", "--layer", "C2H12W11M3K3", "-o", "best.h")
    assert code == 0, err
    assert "run once more: verified" in out
    (folder / "use.c").write_text('#include "best.h"\nint main(void) { return 0; }\n')
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    subprocess.run(["gcc", "-std=c99", "-c", "use.c", "-o", "use.o"], cwd=folder, check=True)


@pytest.mark.parametrize("command", [("export", "-o", "again.h"), ("replay",)], ids=" ".join)
def test_a_slower_device_is_named_beside_the_new_time(capsys, finished, monkeypatch, command):
    folder, _ = finished
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Worker, "health", lambda worker: (10.0,) * 9)
    with sql(folder / "studies" / "tuner.db") as db:
        (trial,) = db.execute("select number from tuner_result where outcome = 'ok' and confirmed limit 1").fetchone()
    rest = (str(trial),) if command[0] == "replay" else command[1:]
    code, out, err = tune(capsys, command[0], "C2H12W11M3K3", *rest)
    assert code == 0, err
    assert "of the time it took beside that trial" in out


def test_export_into_a_folder_is_refused(capsys, finished, monkeypatch):
    monkeypatch.chdir(finished[0])
    code, _, err = tune(capsys, "export", "--layer", "C2H12W11M3K3", "-o", str(finished[0]))
    assert (code, err.count("\n")) == (2, 1)
    assert "is a folder" in err


def test_replay_runs_a_trial_again_and_keeps_its_source(capsys, finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir(folder)
    code, out, err = tune(capsys, "replay", "C2H12W11M3K3", "0", "--keep-source", "kept.cl")
    assert code == 0, err
    assert "now: ok" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "conv_forward" in (folder / "kept.cl").read_text()
    code, _, err = tune(capsys, "replay", "C2H12W11M3K3", "999")
    assert (code, err.count("\n")) == (2, 1)
    assert re.search(r"no trial 999; it has \d+, from 0 to \d+; tune show C2H12W11M3K3 lists the best$", err)
    code, _, err = tune(capsys, "replay", "C2H12W11M3K3", "0", "--profile")
    assert (code, err.count("\n")) == (2, 1)
    assert "this study ran on cpu; leave it out" in err


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_ctrl_c_ends_with_130_and_the_study_goes_on_afterwards(tmp_path, ending):
    command = [*TUNE, "run", *SMALL, "--time", "60s", "--device", "cpu"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "trial" in line)
        running.send_signal(ending)
        out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err
    assert "interrupted" in out + err
    assert "Traceback" not in err
    assert "vs naive" in out
    with sql(tmp_path / "studies" / "tuner.db") as db:
        (claims,) = db.execute("select count(*) from tuner_claim").fetchone()
        (states,) = db.execute("select count(*) from trials where state = 'RUNNING'").fetchone()
    assert (claims, states) == (0, 0)


def test_doctor_reports_the_cpu_and_says_what_is_missing(capsys):
    code, out, _ = tune(capsys, "doctor", "--json")
    assert code == 0
    findings = {finding["subject"]: finding for finding in json.loads(out)}
    assert findings["Fashion-MNIST"]["ok"]
    assert findings["opencl:0"]["ok"]
    assert all(finding["ok"] or finding["remedy"] or finding["found"] for finding in findings.values())


def test_doctor_wraps_what_it_found_and_keeps_its_columns(capsys, monkeypatch):
    long = " ".join(["a long story"] * 9)
    monkeypatch.setattr("tuner.doctor.examine", lambda: [Finding(subject="cuda", ok=False, found=long, remedy=long)])
    code, out, _ = tune(capsys, "doctor")
    lines = out.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("miss  cuda               a long")
    assert {line[:25] for line in lines[1:]} == {" " * 25}
    assert " ".join(out.split()) == f"miss cuda {long} {long}"


def test_replay_wraps_the_message_of_a_failure_but_not_its_log(capsys):
    log = "kernel.cl:7:3: error: " + "no such thing " * 9
    _print(Evaluation(outcome="compile_error", text=f"{'it is said ' * 9}so\n{log}"))
    *said, last = capsys.readouterr().out.splitlines()
    assert last == log
    assert len(said) > 1
    assert max(map(len, said)) <= 80


def test_templates_are_listed_within_80_columns(capsys):
    code, out, _ = tune(capsys, "templates")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "register_tile (cuda, opencl)" in out


def test_layers_and_templates_are_listed(capsys):
    code, out, _ = tune(capsys, "layers")
    assert code == 0
    assert "sp18/conv2" in out
    assert "32.45" in out
    code, out, _ = tune(capsys, "templates", "--json")
    assert {"direct", "shared_tile", "register_tile"} <= {each["name"] for each in json.loads(out)}


def test_cache_is_shown_and_cleared(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_CACHE_DIR", str(tmp_path))
    from tuner.devices.cache import CompileCache

    CompileCache.default().put("ab" * 32, b"binary")
    assert "1 binaries" in tune(capsys, "cache")[1]
    assert tune(capsys, "cache", "--clear")[0] == 0
    assert CompileCache.default().use().entries == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a read-only folder needs root")
def test_read_only_folder_is_one_line(capsys, tmp_path, monkeypatch):
    folder = tmp_path / "sealed"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine allows no mounts")
    try:
        monkeypatch.chdir(folder)
        code, _, err = tune(capsys, "run", *SMALL, "--device", "cpu")
    finally:
        monkeypatch.chdir(tmp_path)
        subprocess.run(["umount", str(folder)], check=True)
    assert code == 1
    assert err.count("\n") == 1
    assert Path(folder).exists()
