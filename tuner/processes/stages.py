"""What a worker is busy with before it answers, told to its keeper by a file in the scratch folder of both."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "TUNER_STAGE_FILE"  # set in a worker
NAME = "stage"
OPENING = "opening the device"
LOOK_SECONDS = 0.15


def enter(what: str) -> None:
    """Say what comes next; nobody need be listening."""
    if path := os.environ.get(VARIABLE):
        with suppress(OSError):
            Path(path).write_text(what)


def follow(future: Future[Any], folder: Path, tell: Callable[[str], None]) -> None:
    """Tell each stage that the worker enters until ``future`` is done."""
    told = ""
    while wait([future], timeout=LOOK_SECONDS).not_done:
        with suppress(OSError):
            stage = (folder / NAME).read_text()
            if stage and stage != told:
                tell(stage)
                told = stage
