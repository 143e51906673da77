"""Control a template's process: start it, ask for one answer at a time, and end it."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any

from tuner.errors import TunerError
from tuner.kernels.hosting.link import Closed, Link
from tuner.kernels.hosting.plain import Malformed, parsed
from tuner.kernels.hosting.server import About, serve
from tuner.kernels.hosting.voice import Voice
from tuner.processes.spawning import OUTSIDE, WITHOUT_MAIN, ctrl_c_blocked

GRACE_SECONDS: float = 2.0  # extra time for the process to report itself what took too long


class Lost(Exception):
    """The process had to be given up.

    Attributes:
        outside: Something outside may have killed it.
        late: It took too long.
    """

    def __init__(self, why: str, *, outside: bool = False, late: bool = False) -> None:
        super().__init__(why)
        self.outside, self.late = outside, late


@dataclass(frozen=True, slots=True)
class Running:
    """A running process; unusable after Lost or Ctrl-C.

    Attributes:
        end: Ends it with its children; called automatically when its owner is gone or the program ends.
    """

    process: BaseProcess
    link: Link
    voice: Voice
    end: Finalize

    def answer(self, text: bytes, most: tuple[int, int], seconds: float) -> tuple[dict[str, Any], bytes]:
        """Send a question, and return the answer.

        Args:
            most: Longest text and most bytes of an answer.
            seconds: Time limit.

        Raises:
            Lost: There is none.
        """
        try:
            if text:
                self.link.send(text, seconds=seconds + GRACE_SECONDS)
            read, blob = self.link.receive(most, seconds + GRACE_SECONDS)
            self.voice.hear_out()
            answer = parsed(read)
            if not isinstance(answer, dict):
                raise Malformed("no answer")
        except TimeoutError:
            raise Lost(f"it takes longer than {seconds:g} s", late=True) from None
        except Malformed as error:
            raise Lost(f"its answer is not plain data: {error}") from None
        except Closed:
            raise _obituary(self) from None
        return answer, blob


def start(about: About, owner: object) -> Running:
    """Start the process of a template.

    Args:
        owner: The process ends when this is gone.

    Raises:
        TunerError: It cannot be started.
    """
    ours, theirs = socket.socketpair()
    name = f"template {about.path.stem}"
    reader, writer = Pipe(duplex=False)
    process = WITHOUT_MAIN.Process(target=serve, args=(about, theirs, writer), name=name, daemon=True)
    try:
        with ctrl_c_blocked():
            process.start()
            end = Finalize(owner, _end, (process, ours, reader), exitpriority=10)
    except OSError as error:
        ours.close()
        reader.close()
        raise TunerError(
            f"template {about.path}: no process can be started for it ({error.strerror or error}); it takes "
            "free memory, and processes and open files within ulimit -u and -n"
        ) from None
    finally:
        theirs.close()
        writer.close()
    voice = Voice(reader.fileno(), about.path.name)
    return Running(process, Link(ours, (reader.fileno(), voice.hear)), voice, end)


def _obituary(running: Running) -> Lost:
    """Say how a process ended that no longer answers."""
    running.process.join(1.0)
    running.voice.hear_out()
    code = running.process.exitcode
    if code is None:
        return Lost("it closes the connection of its process")
    if code >= 0:
        return Lost(f"it ends its process (exit code {code}); a template only declares")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return Lost(f"its process is killed by {name}", outside=code in OUTSIDE)


def _end(process: BaseProcess, ours: socket.socket, reader: Connection) -> None:
    """Kill a process and all it started."""
    assert process.pid is not None
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join(5.0)
    ours.close()
    reader.close()
