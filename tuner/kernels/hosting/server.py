"""The process of a template: loads it, then answers calls of its functions until the other side is gone."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from tuner.errors import UsageError
from tuner.kernels.calling import Broken, Late, called
from tuner.kernels.hosting import declared, plain
from tuner.kernels.hosting.link import Closed, Link
from tuner.kernels.limits import DeviceLimits
from tuner.kernels.loading import load_here
from tuner.kernels.sizes import told
from tuner.kernels.template import KernelTemplate
from tuner.kernels.values import Values
from tuner.problems.problem import Problem
from tuner.processes.beginning import end_with

Answer = dict[str, Any]
UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The arguments of a template's process.

    Attributes:
        path: The template's .py, as the user named it.
        folder: Where the user named it from.
        keeper: Id of the process that asks.
        seconds: Time limit for loading.
    """

    path: Path
    folder: str
    keeper: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A call of one of a template's functions; it comes from our side, which is trusted.

    Attributes:
        function: Its number, in the order of :func:`.declared.written`; -1 asks for the Python's text.
        given: Parameter values of one configuration.
        origin: Those of many configurations, instead of ``given``.
        first: Where ``origin`` names no parameters: how many of the template's own they are.
        more: The problem and, for a constraint, what the device allows.
        errors: NumPy's handling of divisions by zero and the like.
        seconds: Time limit.
    """

    function: int
    given: dict[str, Any]
    origin: Any
    first: int
    more: tuple[Problem | DeviceLimits, ...]
    errors: dict[str, str]
    seconds: float


def serve(about: About, end: socket.socket, voice: Connection) -> None:
    """Run as the process of a template."""
    try:
        _settle(about, voice)
        _serve(about, Link(end))
    except Closed:  # closed by the template itself
        os._exit(1)
    except BaseException:  # otherwise nothing would show it
        traceback.print_exc()
        os._exit(1)


def _serve(about: About, link: Link) -> None:
    alarm = Alarm()
    functions: declared.Functions = []
    try:
        with alarm.within(about.seconds):
            template = load_here(about.path)
            answer: Answer = {"template": declared.written(template, functions), "digest": digest(template)}
    except UsageError as error:
        answer = {"refused": str(error)}
    except Late as error:
        answer = {"refused": f"template {about.path}: {error}"}
    _reply(link, answer, [])
    while "refused" not in answer:
        try:
            question = _completed(pickle.loads(link.receive((UNLIMITED, 0))[0]), template)
        except Closed:
            return
        blobs: list[bytes] = []
        answer_now = _answer(template, functions, question, alarm, blobs)
        _reply(link, answer_now, blobs)


def _completed(question: Question, template: KernelTemplate) -> Question:
    if not question.first:
        return question
    return replace(question, origin=replace(question.origin, parameters=template.parameters[: question.first]))


def digest(template: KernelTemplate) -> str:
    """Return the identity of a template's Python as it is on the disk now."""
    return hashlib.sha256(template.home.text.encode() if template.home else b"").hexdigest()


def _settle(about: About, voice: Connection) -> None:
    """Detach from the user's terminal: prints go to our side, which also handles Ctrl-C, and there is no input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setpgid(0, 0)
    end_with(about.keeper)
    nothing = os.open(os.devnull, os.O_RDWR)
    for kept, source in ((0, nothing), (1, voice.fileno()), (2, voice.fileno())):
        os.dup2(source, kept)
    sys.stdout, sys.stderr = (
        os.fdopen(kept, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False) for kept in (1, 2)
    )
    if (
        tracker := resource_tracker.getfd()
    ) is not None:  # the program's tracker; this process starts its own if needed
        os.close(tracker)
        resource_tracker._resource_tracker._fd = None  # type: ignore[attr-defined]
    os.chdir(about.folder)


class Alarm:
    """Interrupts a call that takes too long, so that its line can be reported."""

    def __init__(self) -> None:
        self._seconds = 0.0
        signal.signal(signal.SIGALRM, self._ring)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self._seconds:
            raise Late(self._seconds)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Raise Late in a call that takes longer."""
        self._seconds = seconds
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, seconds)  # repeats, in case the first is caught
            yield
        finally:
            self._seconds = 0.0
            signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(
    template: KernelTemplate, functions: declared.Functions, question: Question, alarm: Alarm, blobs: list[bytes]
) -> Answer:
    home = template.home
    try:
        with alarm.within(question.seconds):
            if question.function < 0:
                return {"value": home.text if home else ""}
            return _called(template, functions[question.function], question, blobs)
    except Broken as error:
        missed = sorted(question.origin.missed) if question.origin else []
        kind = "arithmetic" if error.divides else error.kind.__name__
        return {"broken": [error.where, error.why, kind], "missed": missed}
    except BaseException as error:  # raised by the template's own objects while the answer was packed
        name = home.path.name if home else ""
        return {"broken": [name, f"{type(error).__name__} while it answers", "Exception"], "missed": []}


def _called(template: KernelTemplate, function: Callable[..., Any], question: Question, blobs: list[bytes]) -> Answer:
    origin = question.origin
    count = len(origin.rows) if origin else 0
    values = origin.values() if origin else Values(question.given)
    with _numpy_errors(question.errors):
        call = (told, function) if function is template.sizes else (function,)
        value = called(template.home, *call, values, *question.more)
        packed = plain.packed(value, count, blobs)
    return {"value": packed, "missed": sorted(origin.missed) if origin else []}


def _numpy_errors(errors: dict[str, str]) -> Any:
    if not errors:
        return nullcontext()
    import numpy as np

    return np.errstate(**errors)  # type: ignore[arg-type]


def _reply(link: Link, answer: Answer, blobs: list[bytes]) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    link.send(json.dumps(answer).encode("ascii"), blobs)
