"""Every error the tuner raises on purpose.

Two families: :class:`UsageError` and its kin are for the user to fix (one line, exit code 2 or 1);
:class:`Rejected` is the outcome of one configuration, stored with its text, and never ends a study.
"""

from __future__ import annotations

from typing import ClassVar


class TunerError(Exception):
    """Base of all errors raised on purpose; the message is one line: subject, value, limit, remedy."""

    exit_code: ClassVar[int] = 1


class UsageError(TunerError):
    """The user asked for something that cannot be: names the value and what is allowed."""

    exit_code: ClassVar[int] = 2


class StudyMismatch(UsageError):
    """A stored study was made for other parameters than the ones asked for."""


class NoWinner(TunerError):
    """A study has no verified winner, so that there is nothing to show, export or compare; not a fault of usage."""


class StorageError(TunerError):
    """The store cannot be opened, read or written (full disk, read-only folder, damaged file)."""


class StoreFull(StorageError):
    """The store cannot be written since there is no room for it; it can still be read."""


class DeviceError(TunerError):
    """The device or its driver failed outside any one configuration."""


class Unforeseen(TunerError):
    """A library or driver failed in a way of its own; the message is the first line of what it said.

    Attributes:
        trace: Its traceback; empty where there is none.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace

    def __reduce__(self) -> tuple[type[Unforeseen], tuple[str, str]]:
        return type(self), (str(self), self.trace)


class Rejected(TunerError):
    """A configuration that did not become a measurement.

    Attributes:
        outcome: The stored word for this failure.
        text: The full text worth keeping (compiler log, CUDA error); the message is its first line.
    """

    outcome: ClassVar[str] = "rejected"

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text or message

    @property
    def whole(self) -> str:
        """The message, which stands for the failure in tables, and below it the full text."""
        return self.text if self.text.startswith(str(self)) else f"{self}\n{self.text}"

    def __reduce__(self) -> tuple[type[Rejected], tuple[str, str]]:
        return type(self), (str(self), self.text)


class Infeasible(Rejected):
    """A constraint of the template does not hold; found before compiling."""

    outcome = "infeasible"


class CompileError(Rejected):
    """The compiler refused the source; ``text`` is its log."""

    outcome = "compile_error"


class OutOfResources(Rejected):
    """The kernel needs more registers, shared memory or threads than the device has."""

    outcome = "out_of_resources"


class WrongResult(Rejected):
    """An output element is off by more than the tolerance, missing, or written outside y."""

    outcome = "wrong_result"


class StrayWrite(WrongResult):
    """It wrote where no kernel may: how far is not known, so its process is not to be used again."""


class Crashed(Rejected):
    """The worker died or the device reported a fault while this configuration ran."""

    outcome = "crashed"


class Killed(Crashed):
    """A process was killed from outside while it worked on a configuration, which need not be to blame."""


class TimedOut(Rejected):
    """Compiling, checking or timing took longer than its limit."""

    outcome = "timed_out"


OUTCOMES: tuple[str, ...] = (
    "ok",
    *(kind.outcome for kind in (Infeasible, CompileError, OutOfResources, WrongResult, Crashed, TimedOut)),
)
