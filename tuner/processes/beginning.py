"""Set up a pool's process: immune to Ctrl-C, with its own folder and log, ended with its keeper."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import tempfile
import threading
from dataclasses import dataclass
from multiprocessing.util import Finalize

from tuner.folders import cache_folder
from tuner.processes import stages

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The settings of a new process.

    Attributes:
        log: File that gets its messages; of one for each process, ``{pid}`` in its name.
        scratch: Folder for its short-lived files.
        nice: Its niceness: how much it yields to other processes.
        keeper: Id of the process that started it.
    """

    log: str
    scratch: str
    nice: int
    keeper: int


def begin(setting: Setting) -> None:
    """Set a worker process up; first of all its messages go to the log, those of a failure here too.

    PoCL leaves files of every build behind, compilers those of a build that was cut short; in a folder of this process
    they go when the run ends, and no other process clears them away beneath it.
    """
    handle = os.open(setting.log.replace("{pid}", str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the keeper does all the cleaning up
    os.setpgid(0, 0)
    end_with(setting.keeper)
    os.environ["TUNER_CACHE_DIR"] = str(cache_folder())  # which may depend on TMPDIR
    own = tempfile.mkdtemp(prefix="process-", dir=setting.scratch)
    os.environ["POCL_CACHE_DIR"] = os.environ["TMPDIR"] = tempfile.tempdir = own
    os.environ[stages.VARIABLE] = f"{setting.scratch}/{stages.NAME}"
    os.nice(setting.nice)


def end_with(keeper: int) -> None:
    """Make this process and its children end when ``keeper`` does, even if that is killed."""
    try:
        watched = os.pidfd_open(keeper)
    except OSError:  # an old kernel, or the keeper has ended already
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(watched,), name="keeper-watch", daemon=True).start()
    Finalize(None, _end, exitpriority=0)  # its pipe may say so before the watch does
    if os.getppid() != keeper:
        _end()


def _watch(keeper: int) -> None:
    poll = select.poll()
    poll.register(keeper, select.POLLIN)
    poll.poll()
    _end()


def _end() -> None:
    """Kill this process's group: compilers and linkers that it started are in it."""
    os.killpg(0, signal.SIGKILL)
