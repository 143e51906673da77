"""A run over a small layer on the CPU, as most tests of runs begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faulty import PATIENCE, patient

from tuner.kernels.template import KernelTemplate
from tuner.problems.conv.layers import find_layer
from tuner.results import Result
from tuner.tuning import Observer, Progress, Report, RunOptions, tune

LAYER = find_layer("C=2,H=12,W=11,M=3,K=3", batch=9)
SIZES = (64, 8, 16, 32, 128, 256)


class Silent(Observer):
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def says(self, line: str) -> None:
        self.lines.append(line)

    def trial(self, result: Result, progress: Progress) -> None:
        self.lines.append(f"{result.configuration} {result.outcome}")


def run(folder: Path, template: KernelTemplate, **more: Any) -> Report:
    """Tune the toy layer with one template on the CPU."""
    options: dict[str, Any] = {
        "problem": LAYER,
        "device": "cpu",
        "templates": (template,),
        "storage": f"sqlite:///{folder}/tuner.db",
        "sampler": "grid",
        "trial_timeout": PATIENCE,
        "compile_timeout": PATIENCE,
    }
    with patient():
        return tune(RunOptions(**(options | more)), Silent())
