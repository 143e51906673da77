"""Whole runs: many writers, full disks, suspects, winners that do not depend on luck, and the tuner's own cost."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from faulty import faulty
from pocl_harness import CPU_LIMITS
from small_run import LAYER, Silent, run
from stand_in import InstantCompiler, InstantWorker
from toy_store import sql

from tuner.bench.protocol import Heat, Task
from tuner.kernels.loading import load_template
from tuner.kernels.space import enumerate_space
from tuner.storage import LAUNCH, Store
from tuner.tuning import RunOptions, pipeline, session, tune

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from faulty import faulty
from small_run import LAYER, Silent
from tuner.tuning import RunOptions, tune
from tuner.errors import TunerError

if __name__ == "__main__":
    template = faulty("none", "off_by_one", threads=tuple(range(1, 60)))
    try:
        report = tune(RunOptions(problem=LAYER, device="cpu", templates=(template,), storage={store!r},
                                 sampler="random", trials={trials}, seed=int(sys.argv[1])), Silent())
    except TunerError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    print(report.progress.done)
"""


LONG = 300  # seconds that only a hang takes


def start(folder: Path, seed: int, trials: int) -> subprocess.Popen[str]:
    """Start a run of its own process on the store in ``folder``."""
    script = folder.parent / f"run-{seed}.py"
    store = f"sqlite:///{folder}/tuner.db"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parents[1] / "support"), store=store, trials=trials))
    command = [sys.executable, str(script), str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def keys_in(path: Path) -> list[str]:
    with sql(path) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        return [row[0] for row in db.execute("select key from tuner_result")]


def test_runs_sharing_a_store_measure_nothing_twice_and_keep_their_budgets(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    runs = [start(folder, seed, trials=8) for seed in range(2)]
    polls = 0
    while any(each.poll() is None for each in runs):
        if (folder / "tuner.db").exists():
            with Store.open(f"sqlite:///{folder}/tuner.db") as store:
                store.studies()
            polls += 1
        time.sleep(0.1)
    for each in runs:
        out, err = each.communicate()
        assert each.returncode == 0, err
        assert out.strip() == "8"
    keys = keys_in(folder / "tuner.db")
    assert len(keys) == len(set(keys)) == 16
    assert polls


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_full_disk_ends_a_run_with_one_line_and_leaves_the_store_whole(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mounts")
    try:
        running = start(folder, 1, trials=60)
        deadline = time.monotonic() + LONG
        while not (folder / "tuner.db").exists() or not keys_in(folder / "tuner.db"):
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with (folder / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        _, err = running.communicate(timeout=LONG)
        assert running.returncode == 1, err
        assert len(err.strip().splitlines()) == 1, err
        assert "free" in err
        (folder / "filler").unlink()
        before = keys_in(folder / "tuner.db")
        assert before
        again = start(folder, 1, trials=2)
        out, err = again.communicate(timeout=LONG)
        assert again.returncode == 0, err
        assert int(out) in (2, 3)  # the one that was in flight when the disk filled up is tried as well
        assert set(before) <= set(keys_in(folder / "tuner.db"))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_suspect_of_a_killed_run_is_tried_last_and_alone(tmp_path):
    template = faulty("none", threads=(8, 16, 32, 64))
    first = run(tmp_path, template, trials=2)
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as store:
        handle = store.find_study(first.progress.study)
        known = {result.configuration.key for result in handle.results()}
        chosen = next(c for c in _all(template) if c.key not in known)
    dying = textwrap.dedent(f"""
        import os, signal
        from tuner.storage import Store
        from tuner.kernels.template import Configuration
        store = Store.open("sqlite:///{tmp_path}/tuner.db")
        handle = store.find_study({first.progress.study!r})
        assert handle.claim([Configuration(template={chosen.template!r}, values={chosen.values!r})], stage={LAUNCH!r})
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert subprocess.run([sys.executable, "-c", dying], check=False).returncode == -9
    watcher = Silent()
    options = RunOptions(
        problem=LAYER,
        device="cpu",
        templates=(template,),
        storage=f"sqlite:///{tmp_path}/tuner.db",
        sampler="grid",
    )
    report = tune(options, watcher)
    assert report.reason == "exhausted"
    position = next(i for i, line in enumerate(watcher.lines) if "suspect" in line)
    assert str(chosen) in watcher.lines[position]
    assert watcher.lines[position + 1] == f"{chosen} ok"
    assert all(str(chosen) not in line for line in watcher.lines[:position])


def _all(template):
    return list(enumerate_space((template,), LAYER, CPU_LIMITS))


def test_edited_included_file_changes_the_source(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tuner import KernelTemplate, Launch, Parameter, read_source\n"
        "TEMPLATE = KernelTemplate(name='mine', idea='', source=read_source(__file__),\n"
        "    parameters=(Parameter(name='A', choices=(1,), doc=''),), constraints=(), launch=lambda p, layer: None)\n"
    )
    (tmp_path / "mine.cu").write_text('#include "part.h"\nint x = PART;\n')
    (tmp_path / "part.h").write_text("#define PART 1\n")
    before = load_template(tmp_path / "mine.py").source
    (tmp_path / "part.h").write_text("#define PART 2\n")
    after = load_template(tmp_path / "mine.py").source
    assert "#define PART 1" in before
    assert "#define PART 2" in after


def test_compilation_past_its_limit_leaves_no_child_process(tmp_path):
    code = textwrap.dedent("""
        import os, subprocess, time
        from tuner.devices.compiler import _deadline
        from tuner.errors import TimedOut
        os.setpgid(0, 0)
        print(os.getpid())
        try:
            with _deadline(0.5):
                subprocess.run(["sh", "-c", "sleep 3600 & sleep 3600"])
        except TimedOut:
            print("timed out")
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LONG)
    group, said = done.stdout.split("\n", 1)
    assert said.strip() == "timed out"
    assert eventually(lambda: running_in(int(group)) == []), running_in(int(group))


def running_in(group: int) -> list[psutil.Process]:
    """Return the processes of a group; one that has ended and waits for its parent runs no more."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def eventually(holds: Callable[[], bool]) -> bool:
    """Wait until something holds, as long as only a hang takes."""
    deadline = time.monotonic() + LONG
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Drifting(InstantWorker):
    """Two configurations are as fast as each other; the device slows down and recovers, each sample has its noise."""

    def seconds_of(self, source: str) -> float:
        return next(seconds for line, seconds in TIMES.items() if line in source) * self.chance.uniform(1.0, 1.3)

    def finals(self, tasks: list[Task], heat: Heat, unless: object = False) -> list[tuple[float, ...]]:
        drifts = [self.chance.uniform(1.0, 1.15) for _ in range(heat.most)]
        return [tuple(self._final(task) * drift * self.chance.gauss(1, 0.002) for drift in drifts) for task in tasks]

    def _final(self, task: Task) -> float:
        return next(seconds for line, seconds in TIMES.items() if line in task.rendered.source)


TIMES = {f"#define THREADS {threads}\n": ms / 1e3 for threads, ms in ((1, 9.0), (2, 4.0), (64, 4.0), (8, 5.0))}


def test_winner_of_an_exhausted_space_does_not_depend_on_the_seed(tmp_path, monkeypatch):
    """Of two that are as fast as each other the simpler wins, whatever the search's own measurements said."""
    template = faulty("none", threads=(1, 2, 8, 64))
    monkeypatch.setattr(pipeline, "Compiler", InstantCompiler)
    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.setattr(session, "Worker", lambda *_, seed=seed: Drifting(seed))
        report = run(folder, template, sampler="random", seed=seed)
        assert (report.reason, report.progress.done) == ("exhausted", 4)
        assert report.winner is not None
        assert report.winner.configuration.as_dict()["THREADS"] == 2
        ties = {each.result.configuration.as_dict()["THREADS"] for each in report.best if each.tied}
        assert ties == {2, 64}


def test_benchmark_of_the_tuners_own_cost_runs():
    script = Path(__file__).parents[1] / "benchmarks" / "overhead.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(script), "--trials", "40", "--sampler", "random"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "ms a trial" in done.stdout
