"""Shared by all tests: a cache of their own, and GPU tests skipped with a visible reason where there is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

os.environ.setdefault("TUNER_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"tuner-tests-{os.getuid()}"))
# PoCL clears what it left in its folder when a process begins or ends: never beneath another process.
_POCL = tempfile.TemporaryDirectory(prefix="tuner-pocl-")
os.environ.setdefault("POCL_CACHE_DIR", _POCL.name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    if not wanted:
        return
    reason = _why_no_gpu()
    for item in wanted if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


def _why_no_gpu() -> str:
    from tuner.devices import cuda_driver, nvcc
    from tuner.errors import UsageError

    try:
        cuda_driver.require()
        nvcc.toolkit()
    except UsageError as error:
        return f"needs an NVIDIA GPU: {error}"
    return ""
