"""Call a template's Python safely: any error becomes one line that names its file and line."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb
from types import ModuleType, TracebackType
from typing import Any, TypeVar, cast

from tuner.errors import TunerError
from tuner.kernels.values import Values
from tuner.problems.problem import Problem
from tuner.suggestions import alternatives

T = TypeVar("T")
LONGEST = 300  # most characters of an error's message
_LOCK = threading.RLock()  # only one template's folder is on Python's path at a time


@dataclass(frozen=True, slots=True)
class Home:
    """Where a template's Python lives.

    Attributes:
        path: Its .py file, absolute.
        modules: What it imported from the files beside it, by name; other templates do not see them.
    """

    path: Path
    modules: dict[str, ModuleType] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All Python that the template consists of, as it is on the disk now."""
        beside = {getattr(module, "__file__", None) for module in self.modules.values()} - {None, str(self.path)}
        files = (self.path, *(Path(str(file)) for file in sorted(map(str, beside))))
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())


class Elsewhere:
    """A template's function in another process, to which calls are forwarded.

    Attributes:
        line: Where it is defined: ``mine.py:12``.
    """

    __slots__ = ("line",)

    def __init__(self, line: str) -> None:
        self.line = line

    def __call__(self, *arguments: Any) -> Any:
        """Return its result as plain data.

        Raises:
            Broken: It failed there, or its process did.
        """
        raise NotImplementedError


class Late(BaseException):
    """A template's Python took longer than its limit in seconds; not an Exception, which a template might catch."""

    def __str__(self) -> str:
        return f"it takes longer than {self.args[0]:g} s"


class Broken(Exception):
    """A template's Python failed.

    Attributes:
        where: ``mine.py:12``, or empty if no line of the template is to blame.
        why: What happened, in one line.
        kind: The class of what it raised.
    """

    def __init__(self, where: str, why: str, kind: type[BaseException]) -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.where, self.why, self.kind = where, why, kind

    @property
    def divides(self) -> bool:
        """Whether the error is a division by zero."""
        return issubclass(self.kind, ArithmeticError)


def called(home: Home | None, function: Callable[..., T], *arguments: Any) -> T:
    """Call a template's function with the files beside it importable; its prints do not go to our standard output.

    Raises:
        Broken: It raised anything, ``sys.exit`` included.
    """
    if isinstance(function, Elsewhere):
        return cast(T, function(*arguments))
    try:
        with beside(home), redirect_stdout(sys.stderr) if home else nullcontext():
            return function(*arguments)
    except (KeyboardInterrupt, Broken):  # Broken comes from a function in another process
        raise
    except BaseException as error:  # a template may raise anything
        raise Broken(_where(error, home), reason(error), type(error)) from None


@contextmanager
def beside(home: Home | None) -> Iterator[None]:
    """Make imports find the files beside a template first, as for a script; undone afterwards."""
    if home is None:
        yield
        return
    folder = str(home.path.parent)
    with _LOCK:
        hidden = {name: sys.modules[name] for name in home.modules if name in sys.modules}
        sys.modules.update(home.modules)
        sys.path.insert(0, folder)
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the folder is the user's
        count = len(sys.modules)
        try:
            yield
        finally:
            sys.dont_write_bytecode = writes
            if folder in sys.path:
                sys.path.remove(folder)
            if len(sys.modules) != count:
                home.modules.update(_from(home.path.parent))
            for name in home.modules:
                sys.modules.pop(name, None)
            sys.modules.update(hidden)


def _from(folder: Path) -> dict[str, ModuleType]:
    """Return the loaded modules whose files are in a folder or below it, installed packages aside."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and folder in Path(file).parents and "site-packages" not in file:
            found[name] = module
    return found


def reason(error: BaseException) -> str:
    """Describe an exception in one line, with the known names in place of an unknown one."""
    if isinstance(error, SystemExit):
        return f"it calls sys.exit({error.code!r}); a template only declares"
    if isinstance(error, Late):
        return str(error)
    if isinstance(error, AttributeError) and (unknown := _unknown(error)):
        return unknown
    try:
        words = " ".join(str(error).split())
    except Exception:  # its class may be the template's own
        words = ""
    words = words if len(words) <= LONGEST else f"{words[:LONGEST]}..."
    kind = "" if isinstance(error, TunerError) else type(error).__name__
    return ": ".join(part for part in (kind, words) if part)


def _unknown(error: AttributeError) -> str:
    """Return a message for an attribute that one of a template's arguments does not have."""
    if isinstance(error.obj, Values):
        word, names = "p", error.obj.names()
        missing = "no such parameter is declared"
    elif type(error.obj).__name__ == "DeviceLimits" or isinstance(error.obj, Problem):
        word = error.obj.noun if isinstance(error.obj, Problem) else "limits"
        names = [name for name in dir(error.obj) if not name.startswith("_")]
        missing = "there is no such value"
    else:
        return ""
    return f"{word}.{error.name}: {missing}; {alternatives(str(error.name), names)}"


def _where(error: BaseException, home: Home | None) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    frames = list(_frames(error.__traceback__))
    ours = [frame for frame in frames if home is not None and home.path.parent in Path(frame[0]).parents]
    if not ours and home is None:
        ours = frames[:1]
    return f"{Path(ours[-1][0]).name}:{ours[-1][1]}" if ours else ("" if home is None else home.path.name)


def _frames(trace: TracebackType | None) -> Iterator[tuple[str, int]]:
    """Yield file and line of each call, starting at the template's function."""
    for frame, line in walk_tb(trace):
        if frame.f_code.co_filename != __file__:
            yield frame.f_code.co_filename, line


def line_of(function: Callable[..., Any]) -> str:
    """Return where a function is defined: ``mine.py:12``; empty if Python does not know."""
    if isinstance(function, Elsewhere):
        return function.line
    code = getattr(function, "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""


def shortened(value: object, most: int = 60) -> str:
    """Return a template's value as short text on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # its class may be the template's own
        text = type(value).__name__
    return text if len(text) <= most else f"{text[:most]}..."
