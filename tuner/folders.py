"""The location of the caches."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

NOWHERE = Path(os.devnull) / "tuner"  # nothing can be read or written there


def cache_folder() -> Path:
    """Return the folder of the caches: ``$TUNER_CACHE_DIR``, else ``tuner`` in the user's cache folder.

    For a user without a home it is a temporary folder; a folder owned by another user is not trusted.
    """
    given = os.environ.get("TUNER_CACHE_DIR")
    if given:
        return Path(given)
    users = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(users):  # by its specification others are ignored
        return Path(users) / "tuner"
    home = os.path.expanduser("~")
    return Path(home) / ".cache" / "tuner" if os.path.isabs(home) and home != "/" else _homeless()


def _homeless() -> Path:
    try:
        folder = Path(tempfile.gettempdir()) / f"tuner-cache-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return NOWHERE
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return folder if own else NOWHERE
