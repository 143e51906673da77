"""Unexpected errors of the system and of libraries, as one line."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tuner.errors import Unforeseen

DEBUG = "TUNER_DEBUG"
NO_FOLDER = "the folder that this was started in is gone; cd to another one"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def output_is_gone(error: BaseException) -> bool:
    """Whether the output is no longer read: its reader has ended, as ``head`` does, or its terminal was closed."""
    inner = error.__context__ if isinstance(error, SystemExit) else error  # click and rich exit
    return isinstance(inner, BrokenPipeError) or (isinstance(inner, OSError) and inner.errno == errno.EIO)


def silence() -> None:
    """Redirect standard output to nowhere, since Python flushes its buffer when it ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def cannot_be_written(error: BaseException) -> bool:
    """Whether a disk is full or a file has reached its size limit; standard output may be that file."""
    return isinstance(error, OSError) and error.errno in (*_FULL, errno.EFBIG)


def line_of(error: Exception) -> str:
    """Return what went wrong in one line, with the remedy if there is one."""
    if is_folder_gone():
        return NO_FOLDER
    if isinstance(error, MemoryError):
        return f"out of memory{_said(error)}; close other programs, or give smaller sizes or a lower --batch"
    if isinstance(error, OSError):
        return _of_system(error)
    return f"{type(error).__name__}{_said(error)}; {DEBUG}=1 shows where"


def _of_system(error: OSError) -> str:
    if error.errno in _FULL:
        return "cannot write the output or a file (No space left on device); free some space"
    if error.errno == errno.EFBIG:
        return "cannot write the output or a file: the limit on a file's size is reached; raise it with ulimit -f"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files; raise the limit with ulimit -n"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or _first_line(error) or type(error).__name__}; {DEBUG}=1 shows where"


def is_folder_gone() -> bool:
    """Whether the working folder was deleted, which makes other things fail."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _said(error: Exception) -> str:
    line = _first_line(error)
    return f": {line}" if line else ""


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


@contextmanager
def debugged() -> Iterator[None]:
    """Print the traceback of any error, and that of the process it came from, if the user asks for it."""
    try:
        yield
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
            for each in (error, error.__cause__):
                if isinstance(each, Unforeseen) and each.trace:
                    print(each.trace, file=sys.stderr)
        raise
