"""The pools of processes that work for a run."""

from __future__ import annotations

import signal

from tuner.processes import Processes


def blocked_signals() -> set[int]:
    return {int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


def test_ctrl_c_while_a_process_starts_does_not_reach_it():
    processes = Processes(1)
    try:
        assert signal.SIGINT in processes.schedule(blocked_signals, limit=60.0).result()
    finally:
        processes.close()
    assert signal.SIGINT not in blocked_signals()
    assert not processes.folder.exists()
