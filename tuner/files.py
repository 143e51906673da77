"""Write files that users ask for: a plain file completely or not at all; a device or pipe is written through."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from tuner.errors import UsageError

_DESCRIPTOR = re.compile(r"/proc/(?:self|thread-self|\d+)/fd/(\d+)|/dev/fd/(\d+)")
_MOST_LINKS = 40
_IN_PLACE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV})  # of the folder, not the file


def refuse_unwritable(path: Path, subject: str) -> None:
    """Refuse at once what :func:`write_whole` would refuse after the work.

    Raises:
        UsageError: A folder, a file in a missing folder, or one that may not be written; one line.
    """
    try:
        kind = _mode(path)
        if kind is not None and stat.S_ISDIR(kind):
            raise UsageError(f"{subject} {path} is a folder; give a file, such as {path / 'NAME'}")
        if _descriptor(path) is not None:
            return
        target = Path(os.path.realpath(path))
        if kind is None and not target.parent.is_dir():
            missing = target.parent if path.is_symlink() else path.parent
            raise UsageError(f"{subject} {path}: folder {missing} does not exist; create it or give another path")
        if not os.access(target.parent if kind is None else target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UsageError(
            f"{subject} {path}: {error.strerror or error}; give a file in a folder you may write"
        ) from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that readers find all of it or none: under a temporary name beside it, then renamed.

    Links are followed, the mode of a file that is there is kept, a new one's is the umask's. A device, pipe or open
    descriptor such as /dev/stdout is written through; so is a file whose folder takes no other.

    Raises:
        OSError: It cannot be written; a plain file is then unchanged.
    """
    descriptor = _descriptor(path)
    if descriptor is not None:
        sys.stdout.flush()
        _write(os.dup(descriptor), content)
        return
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        _write(os.open(target, os.O_WRONLY | os.O_CLOEXEC), content)  # a folder is refused here
    elif mode is None:
        _replace(target, content, None)
    else:
        os.close(os.open(target, os.O_WRONLY | os.O_CLOEXEC))  # a file without write permission is not replaced either
        try:
            _replace(target, content, target.stat())
        except OSError as error:
            if error.errno not in _IN_PLACE:
                raise
            _write(os.open(target, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC), content)


def _replace(target: Path, content: bytes, before: os.stat_result | None) -> None:
    temporary = target.with_name(f".new-{os.getpid()}-{os.urandom(4).hex()}")
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        if before is not None:
            if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(OSError):
                    os.fchown(number, before.st_uid, before.st_gid)
            os.fchmod(number, stat.S_IMODE(before.st_mode))
        _write(number, content)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _write(number: int, content: bytes) -> None:
    """Write all of it, and close the descriptor."""
    with open(number, "wb", buffering=0) as file:
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]


def _mode(path: Path) -> int | None:
    """Return the mode of what a path leads to, or None where nothing is.

    Raises:
        OSError: It cannot be examined: no permission, a name too long, circular links.
    """
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _descriptor(path: Path) -> int | None:
    """Return the open descriptor of this process that a path leads to; /dev/stdout is a link to one."""
    for _ in range(_MOST_LINKS):
        named = _DESCRIPTOR.fullmatch(os.path.abspath(path))
        if named:
            number = int(named[1] or named[2])
            own = not named[1] or named[0].split("/")[2] in ("self", "thread-self", str(os.getpid()))
            return number if own else None
        try:
            path = path.parent / path.readlink()
        except OSError:
            return None
    return None
