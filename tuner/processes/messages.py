"""The border between processes: calls, results and errors cross it as bytes of our own making.

An exception of a driver or library may not be picklable, or not be made again on the other side, and one that fails
there takes the whole pool with it, or leaves its caller waiting for ever. Only our own errors cross.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tuner.errors import OutOfResources, TunerError, Unforeseen


def packed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """Return a call as bytes.

    Raises:
        Unforeseen: Something in it cannot be sent to another process.
    """
    try:
        return bytes(ForkingPickler.dumps((function, arguments)))
    except Exception as error:
        raise Unforeseen(f"cannot be sent to a process: {_line(error)}") from error


def call(payload: bytes) -> bytes:
    """Make a packed call on the other side; return its result, or our own error for its failure."""
    try:
        function, arguments = pickle.loads(payload)
        return bytes(ForkingPickler.dumps((True, function(*arguments))))
    except BaseException as error:
        return _packed_error(ours(error))


def unpacked(answer: bytes) -> Any:
    """Return the result of a call.

    Raises:
        TunerError: It failed.
    """
    try:
        good, value = pickle.loads(answer)
    except Exception as error:
        raise Unforeseen(f"its result cannot be read: {_line(error)}") from error
    if good:
        return value
    raise value


def pass_on(answered: Future[bytes], wanted: Future[Any]) -> None:
    """Let ``wanted`` end as ``answered`` did; what the pool itself says of a process's end stays as it is."""
    if answered.cancelled():  # by the pool's end
        wanted.cancel()
        return
    try:
        wanted.set_result(unpacked(answered.result()))
    except (Exception, CancelledError) as failed:
        wanted.set_exception(failed)


def ours(error: BaseException) -> TunerError:
    """Return one of our own errors for any error."""
    if isinstance(error, TunerError):
        return error
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, MemoryError):
        return OutOfResources(f"memory: {_line(error)}; give smaller sizes or a lower --batch", trace)
    return Unforeseen(_line(error), trace)


def _packed_error(error: TunerError) -> bytes:
    try:
        return pickle.dumps((False, error))
    except Exception:  # an attribute of it
        return pickle.dumps((False, Unforeseen(_line(error))))


def _line(error: BaseException) -> str:
    """Return an error's kind and the first line of what it says."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
