"""Our side of a template's process: starts it, calls it, and ends it; nothing that it does changes anything here."""

from __future__ import annotations

import os
import pickle
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tuner.errors import UsageError
from tuner.kernels.calling import LONGEST, Broken, Elsewhere, Home
from tuner.kernels.hosting import declared
from tuner.kernels.hosting.plain import Malformed, Reader, group, printable, word
from tuner.kernels.hosting.process import Lost, Running, start
from tuner.kernels.hosting.server import About, Question
from tuner.kernels.parameters import Parameter
from tuner.kernels.template import KernelTemplate
from tuner.kernels.values import Values, mapping_of
from tuner.processes.spawning import check_python

LOAD_SECONDS: float = 60.0
CALL_SECONDS: float = 10.0
LATER_SECONDS: float = 1.0  # time limit once the function has taken too long
ROWS_PER_SECOND: Final = 10_000
MOST_LATE: Final = 3  # timeouts after which a function that never answered is not called again
MOST_KILLED: Final = 3
MOST_KEPT: Final = 1 << 16
MOST_TEXT: Final = 64 << 20
MOST_COLUMNS: Final = 256
MOST_WHY: Final = 2000
KINDS: Final[dict[str, type[BaseException]]] = {
    "arithmetic": ArithmeticError,
    "ValueError": ValueError,
    "TypeError": TypeError,
}


@dataclass(frozen=True, slots=True)
class FarHome(Home):
    """The location of a template's Python, in its own process."""

    host: Host | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        assert self.host is not None
        return self.host.text()


class _Far(Elsewhere):
    """A function of the template."""

    __slots__ = ("_host", "_number")

    def __init__(self, host: Host, number: int, line: str) -> None:
        super().__init__(line)
        self._host, self._number = host, number

    def __call__(self, *arguments: Any) -> Any:
        return self._host.call(self._number, self.line, *arguments)


class Host:
    """Calls a template's process, and starts another when it is gone. Each function is called once per configuration.

    Args:
        path: The template's .py file.
    """

    def __init__(self, path: Path) -> None:
        self._about = About(path=path, folder=os.getcwd(), keeper=os.getpid(), seconds=LOAD_SECONDS)
        self._lock = threading.RLock()
        self._running: Running | None = None
        self._known: tuple[Any, Any] | None = None
        self._parameters: tuple[Parameter, ...] = ()
        self._kept: dict[Any, Any] = {}
        self._late: dict[int, int] = {}
        self._good: set[int] = set()

    def load(self) -> KernelTemplate:
        """Return the template; its functions call this host.

        Raises:
            UsageError: Its file or declaration is wrong; one line.
            TunerError: No process can be started.
        """
        with self._lock:
            given, _ = self._loaded()
        home = FarHome(path=self._about.path.absolute(), host=self)
        try:
            template = declared.made(given, home, lambda number, line: _Far(self, number, line))
            self._parameters = template.parameters
            return template
        except UsageError as error:
            raise UsageError(f"template {self._about.path}: {error}") from None
        except Malformed as error:
            raise UsageError(f"template {self._about.path}: what it declares is not plain data: {error}") from None

    def text(self) -> str:
        """Return all Python that the template consists of, as it is on the disk now.

        Raises:
            UsageError: Its process cannot tell.
        """
        question = Question(function=-1, given={}, origin=None, first=0, more=(), errors={}, seconds=CALL_SECONDS)
        try:
            answer, _ = self._asked(question)
            return word(answer.get("value"), MOST_TEXT)
        except (Lost, Malformed) as error:
            raise UsageError(f"template {self._about.path}: its Python cannot be read: {error}") from None

    def call(self, number: int, line: str, values: Any, *more: Any) -> Any:
        """Call a function of the template; return plain data.

        Raises:
            Broken: It failed, took too long, or ended its process.
        """
        given = _given(values)
        if given is None:
            return self._call(number, line, values, more)
        try:
            key = number, tuple(given.items()), more
            hash(key)
        except TypeError:
            return self._call(number, line, values, more)
        with self._lock:
            if key not in self._kept:
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[key] = self._verdict(number, line, values, more)
            good, kept = self._kept[key]
        if good:
            return kept
        raise Broken(*kept)

    def _verdict(self, number: int, line: str, values: Any, more: tuple[Any, ...]) -> tuple[bool, Any]:
        try:
            return True, self._call(number, line, values, more)
        except Broken as error:
            return False, (error.where, error.why, error.kind)

    def _call(self, number: int, line: str, values: Any, more: tuple[Any, ...]) -> Any:
        given = _given(values)
        origin = _origin(values) if given is None else None
        count = len(origin.rows) if origin else 0
        first = len(origin.parameters) if origin and self._are_first(origin.parameters) else 0
        late = self._late.get(number, 0)
        if late >= MOST_LATE and number not in self._good:
            raise Broken(line, f"it took too long each of the {late} times that it was called", TimeoutError)
        question = Question(
            function=number,
            given=given or {},
            origin=origin and replace(origin, missed=set(), parameters=() if first else origin.parameters),
            first=first,
            more=more,
            errors=_numpy_errors() if origin else {},
            seconds=(LATER_SECONDS if late else CALL_SECONDS) + count / ROWS_PER_SECOND,
        )
        try:
            answer, blob = self._asked(question, count)
            if origin:
                origin.missed.update(word(name) for name in group(answer.get("missed")))
            if "broken" in answer:
                where, why, kind = (word(part) for part in group(answer["broken"], 3))
                self._late[number] = late + (kind == "Late")
                why = " ".join(printable(why, MOST_WHY).split())
                raise Broken(printable(where, LONGEST), why, KINDS.get(kind, Exception))
            value = Reader(count, blob).read(answer.get("value"))
        except Lost as error:
            self._late[number] = late + error.late
            raise Broken(line, str(error), Exception) from None
        except Malformed as error:
            raise Broken(line, f"its answer is not plain data: {error}", Exception) from None
        self._good.add(number)
        return value

    def _are_first(self, parameters: tuple[Parameter, ...]) -> bool:
        return parameters == self._parameters[: len(parameters)]

    def _asked(self, question: Question, count: int = 0) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a question; asks again if the process was killed from outside.

        Raises:
            Lost: There is none.
        """
        most = MOST_TEXT if question.function < 0 else (1 << 20) + 64 * count, 8 * (count + 1) * MOST_COLUMNS
        for tries in range(MOST_KILLED):
            with self._lock:
                if self._running is None or self._about.keeper != os.getpid():
                    self._loaded()
                try:
                    return self._exchange(pickle.dumps(question), most, question.seconds)
                except Lost as error:
                    if not error.outside or tries == MOST_KILLED - 1:
                        raise
        raise AssertionError

    def _loaded(self) -> tuple[Any, Any]:
        """Start a process that loads the template; return what it declares.

        Raises:
            UsageError: It does not load, or its declaration has changed.
        """
        path = self._about.path
        self._about = replace(self._about, keeper=os.getpid())
        self._running = start(self._about, self)
        try:
            answer, _ = self._exchange(b"", (MOST_TEXT, 0), self._about.seconds)
        except Lost as error:
            check_python()
            raise UsageError(f"template {path}: {error}") from None
        if "refused" in answer:
            self.close()
            raise UsageError(printable(str(answer["refused"]), 4000))
        found = answer.get("template"), answer.get("digest")
        if self._known not in (None, found):
            raise UsageError(f"template {path}: it was changed while it was in use; start again")
        self._known = found
        return found

    def _exchange(self, text: bytes, most: tuple[int, int], seconds: float) -> tuple[dict[str, Any], bytes]:
        """Return the answer of the process that runs.

        Raises:
            Lost: There is none, and the process was given up.
        """
        assert self._running is not None
        try:
            return self._running.answer(text, most, seconds)
        except BaseException:  # also Ctrl-C: a late answer must not be taken for the next one
            self.close()
            raise

    def close(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            if self._running is not None:
                self._running.end()
                self._running = None


def _given(values: Any) -> dict[str, Any] | None:
    """Return the values of one configuration, None for columns."""
    if type(values) is Values:
        given = mapping_of(values)
        return given if type(given) is dict else None
    return None if isinstance(values, Values) else dict(vars(values))


def _origin(values: Any) -> Any:
    from tuner.kernels.columns import origin_of

    return origin_of(values)


def _numpy_errors() -> dict[str, str]:
    import numpy as np

    return {kind: how for kind, how in np.geterr().items() if how in ("ignore", "raise", "warn")}
