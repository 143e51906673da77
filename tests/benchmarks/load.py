"""Run ``tune run`` again and again on busy cores; do all commands name one winner, and does ``--time`` hold?

    python tests/benchmarks/load.py --runs 10 --load 4 --time 40

Each run has a store of its own. Exit code 1 if commands disagree, or a run takes more than five seconds over its time.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna

TUNE = [sys.executable, "-m", "tuner"]
BUSY = "while True: pass"
GRACE = 5.0  # seconds that a run may take over its time


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep the cores busy with as many processes meanwhile."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def ask(folder: Path, *words: str) -> str:
    """Return a command's output.

    Raises:
        SystemExit: It failed; says how.
    """
    store = f"sqlite:///{folder}/tuner.db"
    done = subprocess.run([*TUNE, *words, "--storage", store], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tune {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}\n{done.stdout}")
    return done.stdout


def number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text, re.MULTILINE)
    return int(found[1]) if found else None


def named(folder: Path, study: str) -> dict[str, int | None]:
    """Return which trial each command names as the winner of the folder's one study."""
    header = folder / "best.h"
    answers: dict[str, Callable[[], int | None]] = {
        "best": lambda: number(r": trial (\d+), ", ask(folder, "best", study)),
        "best --json": lambda: json.loads(ask(folder, "best", study, "--json"))["trial"],
        "list --json": lambda: json.loads(ask(folder, "list", "--json"))[0]["winner"],
        "show": lambda: number(r"^ *\*(\d+) ", ask(folder, "show", study)),
        "show --json": lambda: json.loads(ask(folder, "show", study, "--json"))["winner"],
        "export": lambda: number(r"^trial (\d+): ", ask(folder, "export", study, "-o", str(header))),
        "header": lambda: number(r"trial (\d+)", header.read_text(encoding="utf-8")),
        "Optuna": lambda: _optunas(folder, study),
    }
    return {name: answer() for name, answer in answers.items()}


def _optunas(folder: Path, study: str) -> int:
    return optuna.load_study(study_name=study, storage=f"sqlite:///{folder}/tuner.db").best_trial.number


def one_run(folder: Path, layer: str, seconds: float) -> bool:
    """Tune a layer in an empty folder and print what the commands say; return whether all is well."""
    started = time.monotonic()
    out = ask(folder, "run", layer, "--time", f"{seconds:.0f}s")
    took = time.monotonic() - started
    winner, study = number(r"^ *\*(\d+) ", out), json.loads(ask(folder, "list", "--json"))[0]["study"]
    if winner is None:
        print(f"{took:6.1f} s of {seconds:.0f}; no winner\n{out}", flush=True)
        return False
    others = {name: trial for name, trial in named(folder, study).items() if trial != winner}
    late = took > seconds + GRACE
    said = f"but {', '.join(f'{name} says {trial}' for name, trial in others.items())}" if others else "all say so"
    best = re.search(rf"^ *\*{winner} +(\S+) +(\S+)", out, re.MULTILINE)
    figures = f"{best[1]} ms +- {best[2]}" if best else ""
    print(f"{took:6.1f} s of {seconds:.0f}{' (late)' if late else ''}; trial {winner}, {figures}: {said}", flush=True)
    for line in re.findall(r"^finals: .*$", out, re.MULTILINE):
        print(f"         {line}", flush=True)
    return not others and not late


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--load", type=int, default=4, help="busy processes")
    parser.add_argument("--time", type=float, default=40.0, help="seconds of a run")
    parser.add_argument("--layer", default="conv2")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    well = []
    with load(given.load):
        for _ in range(given.runs):
            with tempfile.TemporaryDirectory(prefix="tuner-load-") as folder:
                well.append(one_run(Path(folder), given.layer, given.time))
    print(f"{sum(well)} of {len(well)} runs: one winner, in time")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
