"""Several processes on one store: nothing twice, nothing locked, nothing lost when they are killed."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from toy_store import ENVIRONMENT, TEMPLATES, toy_configuration, toy_key, toy_ok

from tuner.storage import Store

SPACE = 384
WRITER = """
import random, sys, time
sys.path.insert(0, sys.argv[1])
from toy_store import *
from tuner.storage import COMPILE, LAUNCH, Store

seed, holds_at = int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)
handle = Store.open(sys.argv[2]).study(toy_key(), ENVIRONMENT, TEMPLATES)
numbers = list(range(384))
rng.shuffle(numbers)
print("ready", flush=True)
sys.stdin.readline()
begun = 0
for start in range(0, len(numbers), 4):
    batch = {toy_configuration(n).key: n for n in numbers[start : start + 4]}
    granted = handle.claim([toy_configuration(n) for n in batch.values()], stage=COMPILE, suspects_ok=True)
    for configuration in granted:
        handle.mark(configuration, LAUNCH)
        number = batch[configuration.key]
        begun += 1
        if begun == holds_at:
            print("holds", flush=True)
            sys.stdin.read()  # the device's part, until the kill
        time.sleep(0.01)
        trial = handle.record(toy_ok(number, 1e-3 * (1 + number)))
        print("stored", number, trial, flush=True)
"""


def start_writer(path: Path, seed: int, holds_at: int = 0) -> subprocess.Popen[str]:
    """Start a writer that waits for :func:`let_go`; with ``holds_at`` it stops for good in its so-manyeth launch."""
    command = [
        sys.executable,
        "-c",
        WRITER,
        str(Path(__file__).parents[1] / "support"),
        str(path),
        str(seed),
        str(holds_at),
    ]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )


def let_go(writers: list[subprocess.Popen[str]]) -> None:
    """Let writers begin together, once all of them have started."""
    for writer in writers:
        assert writer.stdout
        if writer.stdout.readline() != "ready\n":
            raise AssertionError(rest_of(writer)[1])
    for writer in writers:
        assert writer.stdin
        writer.stdin.write("go\n")
        writer.stdin.flush()


def rest_of(writer: subprocess.Popen[str]) -> tuple[str, str]:
    """Read to the end by the same files as the first line: ``communicate`` would miss what they hold already."""
    assert writer.stdout
    assert writer.stderr
    with writer:
        return writer.stdout.read(), writer.stderr.read()


def stored_by(output: str) -> list[int]:
    return [int(line.split()[1]) for line in output.splitlines() if line.startswith("stored ") and line.count(" ") == 2]


def assert_intact(path: Path) -> None:
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert plain.execute("PRAGMA foreign_key_check").fetchall() == []


def assert_one_trial_each(path: Path) -> None:
    """Every result has its own trial, numbered without gaps, with a value exactly when it is ok."""
    with closing(sqlite3.connect(path)) as plain:
        numbers = [number for (number,) in plain.execute("SELECT number FROM trials ORDER BY number")]
        joined = plain.execute(
            "SELECT count(*) FROM tuner_result r JOIN trials t ON t.trial_id = r.trial_id AND t.number = r.number"
        ).fetchone()
        values = plain.execute("SELECT count(*) FROM trial_values").fetchone()
        ok = plain.execute("SELECT count(*) FROM tuner_result WHERE outcome = 'ok'").fetchone()
    assert numbers == list(range(len(numbers)))
    assert joined == (len(numbers),)
    assert values == ok


def test_four_writers_and_a_reader_share_one_new_file(tmp_path: Path) -> None:
    """The file does not exist yet: making the tables is part of the race."""
    path = tmp_path / "tuner.db"
    writers = [start_writer(path, seed) for seed in range(4)]
    let_go(writers)
    seen = 0
    with Store.open(path) as reader:
        while any(writer.poll() is None for writer in writers):
            (summary,) = reader.studies()
            assert summary.trials >= seen
            seen = summary.trials
            time.sleep(0.05)
        outputs = [rest_of(writer) for writer in writers]
        assert [error for _, error in outputs] == [""] * 4
        assert [writer.returncode for writer in writers] == [0] * 4
        by_whom = [stored_by(output) for output, _ in outputs]
        times = Counter(number for numbers in by_whom for number in numbers)
        assert times == Counter(range(SPACE))
        assert sum(bool(numbers) for numbers in by_whom) > 1, "one writer did everything: no concurrency was tested"
        handle = reader.find_study(toy_key().name)
        assert len(handle.results()) == SPACE
        assert handle.claims() == []
    assert_intact(path)
    assert_one_trial_each(path)


def test_killed_writers_lose_nothing_stored_and_leave_suspects(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    with Store.open(path) as store:
        store.study(toy_key(), ENVIRONMENT, TEMPLATES)
    stored: set[int] = set()
    interrupted = 0
    for round_number, launches in enumerate((2, 9, 17)):
        holding = start_writer(path, 10 * round_number, holds_at=launches)
        working = start_writer(path, 10 * round_number + 1)
        let_go([holding, working])
        assert holding.stdout
        output = "".join(itertools.takewhile("holds\n".__ne__, holding.stdout))
        for writer in (working, holding):  # the one wherever it is, the other between launch and record
            os.kill(writer.pid, signal.SIGKILL)
        for writer in (working, holding):
            rest, error = rest_of(writer)
            assert error == ""
            output += rest
        stored |= set(stored_by(output))
        with Store.open(path) as store:
            handle = store.find_study(toy_key().name)
            assert handle.claims() == []
            interrupted += len(handle.suspects())
            results = {result.configuration.key: result for result in handle.results()}
            for number in stored:
                assert results[toy_configuration(number).key] == toy_ok(number, 1e-3 * (1 + number))
            assert {result.outcome for result in results.values()} <= {"ok", "crashed"}
        assert_intact(path)
        assert_one_trial_each(path)
    assert len(stored) > 20
    assert interrupted >= 3
    with Store.open(path) as store:
        handle = store.find_study(toy_key().name)
        everything = [toy_configuration(number) for number in range(SPACE)]
        left = handle.claim(everything, suspects_ok=True)
        handle.record_all([toy_ok(everything.index(configuration)) for configuration in left])
        assert handle.counts() == {"ok": SPACE}
        assert handle.suspects() == []
    assert_one_trial_each(path)
