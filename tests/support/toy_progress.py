"""The progress of a run that never was."""

from __future__ import annotations

from typing import Any

from toy_store import timed

from tuner.kernels.template import Configuration
from tuner.problems.conv.layers import find_layer
from tuner.results import Environment
from tuner.tuning.progress import Progress

HERE = Environment(device="cpu", kind="cpu", model="Test CPU", driver="d", toolkit="t", arch="a")
RESULT = timed(Configuration(template="direct", values=(("A", 1),)), 1e-3, fingerprint="f")


def progress(**values: Any) -> Progress:
    given: dict[str, Any] = {
        "study": "s",
        "problem": find_layer("conv2", 50),
        "environment": HERE,
        "space": 100,
        "trials": None,
    }
    return Progress(**{"seconds": None, **given, **values})
