"""Kill real runs at random moments: ``python tests/support/soak.py --kills 50 --seed 1``.

Each round starts a run on one store, reads what it reports, ends it with ``kill -9``, and looks at the store: every
reported trial is there, none is RUNNING once the store was opened again, none was measured twice, and SQLite finds
the file whole.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import IO, Any

RUN = """
import sys
sys.path.insert(0, {tests!r})
from faulty import faulty
from tuner.problems.conv.layers import find_layer
from tuner.tuning import RunOptions, tune

class Printer:
    def says(self, line):
        pass
    def trial(self, result, progress):
        print(result.configuration.key, flush=True)

if __name__ == "__main__":
    template = faulty("none", "off_by_one", "hash_error", threads=tuple(range(1, 200)))
    tune(RunOptions(problem=find_layer("C=2,H=12,W=11,M=3,K=3", batch=9), device="cpu", templates=(template,),
                    storage={store!r}, sampler="random", seed={seed}), Printer())
    print("DONE", flush=True)
"""


def one_round(folder: Path, seed: int, seconds: float) -> tuple[set[str], bool]:
    """Run until ``seconds`` after the first report, kill, and return what was reported and whether it had ended."""
    script = folder / "run.py"
    script.write_text(RUN.format(tests=str(Path(__file__).parent), store=f"sqlite:///{folder}/tuner.db", seed=seed))
    running = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=folder)
    assert running.stdout is not None
    reported: list[str] = []
    first = threading.Event()

    def read(lines: IO[str]) -> None:
        for line in lines:
            reported.append(line.strip())
            first.set()

    reader = threading.Thread(target=read, args=(running.stdout,))
    reader.start()
    first.wait(timeout=300)
    time.sleep(seconds)
    running.kill()
    running.wait()
    reader.join()
    running.stdout.close()
    return {line for line in reported if line != "DONE"}, "DONE" in reported


def examine(path: Path) -> dict[str, Any]:
    """Open the store as the next run would, and return what SQLite and its tables say."""
    from tuner.storage import Store

    Store.open(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as db:
        (integrity,) = db.execute("pragma integrity_check").fetchone()
        (running,) = db.execute("select count(*) from trials where state = 'RUNNING'").fetchone()
        (twice,) = db.execute("select count(*) - count(distinct study_id || key) from tuner_result").fetchone()
        keys = {row[0] for row in db.execute("select key from tuner_result")}
    return {"integrity": integrity, "running": running, "twice": twice, "keys": keys}


def soak(kills: int, seed: int) -> int:
    """Do ``kills`` rounds on one store; return how many trials there are at the end.

    Raises:
        AssertionError: A promise was broken; says which.
    """
    chance = random.Random(seed)
    reported: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(kills):
            news, ended = one_round(folder, seed + number, chance.uniform(0.0, 2.5))
            again = news & reported
            assert not again, f"round {number}: measured twice: {again}"
            reported |= news
            found = examine(folder / "tuner.db")
            lost = reported - found["keys"]
            assert not lost, f"round {number}: lost {lost}"
            assert (found["integrity"], found["running"], found["twice"]) == ("ok", 0, 0), f"round {number}: {found}"
            if ended:
                break
    return len(reported)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"{given.kills} kills survived, {soak(given.kills, given.seed)} trials reported, none lost or repeated")
