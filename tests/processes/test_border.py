"""Whatever a function does in a process of a pool, its caller gets one of our errors, and the pool goes on."""

from __future__ import annotations

import os
import sys

import pytest

from tuner.errors import CompileError, DeviceError, OutOfResources, TunerError, Unforeseen
from tuner.processes.pool import Processes


class UnpicklableError(Exception):
    """As drivers have them: it holds what cannot be sent."""

    def __init__(self) -> None:
        super().__init__("cuFooBar failed:\nbadly")
        self.handle = open(os.devnull)  # noqa: SIM115  (for as long as the process lives)


class UnmakeableError(Exception):
    """Pickles, and cannot be made again from what it was pickled as: its initialiser takes more."""

    def __init__(self, routine: str, code: int) -> None:
        super().__init__(f"{routine}: {code}")


class Landmine:
    """Pickles here, and fails where it is unpickled."""

    def __reduce__(self):
        return (int, ("not a number",))


class OddError(DeviceError):
    """One of ours that holds what cannot be sent."""

    def __init__(self) -> None:
        super().__init__("the device sulks")
        self.handle = lambda: None


def fail(kind: str) -> object:
    match kind:
        case "unpicklable":
            raise UnpicklableError
        case "unmakeable":
            raise UnmakeableError("clBuildProgram", -11)
        case "memory":
            raise MemoryError
        case "recursion":
            return fail(kind)
        case "unicode":
            return "\ud800".encode()
        case "exit":
            sys.exit(7)
        case "interrupt":
            raise KeyboardInterrupt
        case "own":
            raise CompileError("a line", "the log")
        case "odd":
            raise OddError
        case "result":
            return lambda: None
        case "landmine":
            return Landmine()
    return "fine"


ENDS = {
    "unpicklable": (Unforeseen, "UnpicklableError: cuFooBar failed:"),
    "unmakeable": (Unforeseen, "UnmakeableError: clBuildProgram: -11"),
    "memory": (OutOfResources, "memory: MemoryError; give smaller sizes or a lower --batch"),
    "recursion": (Unforeseen, "RecursionError: maximum recursion depth exceeded"),
    "unicode": (Unforeseen, "UnicodeEncodeError: 'utf-8' codec"),
    "exit": (Unforeseen, "SystemExit: 7"),
    "interrupt": (Unforeseen, "KeyboardInterrupt"),
    "own": (CompileError, "a line"),
    "odd": (Unforeseen, "OddError: the device sulks"),
    "result": (Unforeseen, "Can't"),
    "landmine": (Unforeseen, "its result cannot be read: ValueError"),
}


@pytest.fixture(scope="module")
def processes():
    opened = Processes(1)
    yield opened
    opened.close()


@pytest.mark.parametrize("kind", ENDS)
def test_error_of_any_kind_arrives_as_one_of_ours(processes, kind):
    first = processes.schedule(os.getpid, limit=300.0).result()
    wanted, said = ENDS[kind]
    with pytest.raises(TunerError) as caught:
        processes.schedule(fail, kind, limit=300.0).result()
    assert type(caught.value) is wanted
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert processes.schedule(os.getpid, limit=300.0).result() == first, "the process was lost"


@pytest.mark.parametrize("argument", [lambda: None, Landmine()], ids=["lambda", "landmine"])
def test_argument_that_cannot_be_sent_is_said_and_holds_nothing_up(processes, argument):
    with pytest.raises(Unforeseen):
        processes.schedule(fail, argument, limit=300.0).result(timeout=300.0)
    assert processes.schedule(fail, "", limit=300.0).result() == "fine"


def test_text_of_a_rejection_crosses_with_it(processes):
    with pytest.raises(CompileError) as caught:
        processes.schedule(fail, "own", limit=300.0).result()
    assert caught.value.text == "the log"


def test_traceback_of_a_foreign_error_crosses_as_text(processes):
    with pytest.raises(Unforeseen) as caught:
        processes.schedule(fail, "unmakeable", limit=300.0).result()
    assert "in fail" in caught.value.trace
