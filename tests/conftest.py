"""Shared by all tests: caches of their own, leaks told where they arise, GPU tests skipped with a visible reason."""

from __future__ import annotations

import gc
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gpu import why_none
from xdist.scheduler import LoadScopeScheduling

# A process started in the background may ignore Ctrl-C, one started by nohup ignores a hangup, and so would every
# command that a test starts.
for _ending, _default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_ending) is signal.SIG_IGN:
        signal.signal(_ending, _default)

os.environ.setdefault("TUNER_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"tuner-tests-{os.getuid()}"))
# Before each launch as much is written as the last-level cache holds. A virtual machine is told all of its host's:
# hundreds of megabytes, which would be nearly all of a small test's time.
os.environ.setdefault("TUNER_CPU_CACHE", str(8 << 20))
# PoCL clears what it left in its folder when a process begins or ends: never beneath another process. Each process of
# the suite has its own; what a caller names is respected, what the process that starts the others made is not.
if "POCL_CACHE_DIR" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    _POCL = tempfile.TemporaryDirectory(prefix="tuner-pocl-")
    os.environ["POCL_CACHE_DIR"] = _POCL.name


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """Collect what a file's tests left behind: an unclosed connection is an error of that file, not of a later one."""
    yield
    gc.collect()


class _Together(LoadScopeScheduling):  # type: ignore[misc]
    """Give each process test after test; those of a file that share a study or a device stay in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if _shares(file) else nodeid


@cache
def _shares(file: str) -> bool:
    """Tell whether a test file has a fixture that several of its tests use."""
    path = Path(__file__).parents[1] / file
    return re.search(r'scope="(module|class)"', path.read_text()) is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Together:
    return _Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    if not wanted:
        return
    reason = why_none()
    for item in wanted if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))
