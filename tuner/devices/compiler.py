"""Compile ahead, many at once, in processes that can be killed; cached binaries are returned at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType

from tuner.devices.cache import CompileCache, binary_key
from tuner.devices.linker import linkers_killer
from tuner.errors import CompileError, Killed, Rejected, TimedOut, Unforeseen
from tuner.processes.pool import DIED, Processes, killer
from tuner.results import Environment, Evaluation

COMPILE_SECONDS = 60.0
MOST_KILLED = 3  # attempts at one compilation whose process is killed
GRACE_SECONDS = 2.0
NICE = 10  # compilers yield to the process that drives a GPU; where kernels run on the same cores, they wait
SPILLS = "\n// spilled bytes"  # appended to a source: the cache key of its spills


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A binary, the seconds its compilation took (0 from the cache), and the bytes a thread spills (None: unknown)."""

    binary: bytes
    seconds: float
    spill_bytes: int | None = None

    def completed(self, evaluation: Evaluation) -> Evaluation:
        """Complete an evaluation with the compiler's facts: its seconds, and the spills."""
        return replace(
            evaluation,
            resources=replace(evaluation.resources, spill_bytes=self.spill_bytes),
            costs=replace(evaluation.costs, compile=self.seconds),
        )


class Compiler:
    """A pool of compiling processes for one environment.

    Args:
        environment: Target and compiler.
        jobs: Number of processes; they start when first needed.
        limit: Seconds one compilation may take.
    """

    def __init__(self, environment: Environment, jobs: int, limit: float = COMPILE_SECONDS) -> None:
        self._environment, self.limit = environment, limit
        self.cache = CompileCache.default()
        self._processes = Processes(jobs, log=True, nice=0 if environment.kind == "cpu" else NICE)

    def submit(self, source: str) -> Future[Compiled]:
        """Return the future binary of ``source``; read it with :meth:`result`."""
        ready: Future[Compiled] = Future()
        try:
            binary = self.cache.get(binary_key(self._environment, source))
        except UnicodeError as error:
            ready.set_exception(CompileError(f"the source cannot be written as UTF-8: {error}"))
            return ready
        if binary is not None:
            spilled = _read_spills(self.cache, self._environment, source)
            ready.set_result(Compiled(binary=binary, seconds=0.0, spill_bytes=spilled))
            return ready
        limit = self.limit + GRACE_SECONDS
        return self._processes.schedule(_compile, self._environment, source, self.limit, limit=limit)

    def result(self, future: Future[Compiled]) -> Compiled:
        """Wait for a submitted compilation.

        Raises:
            CompileError: With the compiler's log, or how the compiler died.
            TimedOut: It took longer than the limit; all of its processes have ended.
            TunerError: The disk is full: it says nothing of the source.
        """
        try:
            return self._result(future)
        except CompileError:
            self._processes.check_room()
            raise

    def _result(self, future: Future[Compiled]) -> Compiled:
        try:
            return future.result()
        except FutureTimeout:
            raise _too_long(self.limit) from None
        except Unforeseen as error:
            raise CompileError(f"the compiler failed: {error}", error.trace) from None
        except DIED as error:
            # a broken pool: an idle or starting process died before it saw the source
            how = "had not begun when its process died" if isinstance(error, BrokenProcessPool) else killer(error)
            if how:
                raise Killed(f"the compiler {how}") from None
            said = self._processes.said(error)
            if how := linkers_killer(said):
                raise Killed(f"the compiler's linker {how}", said) from None
            raise CompileError(f"the compiler's process died: {error}", said) from None

    def compiled(self, source: str) -> Compiled:
        """Compile now; up to three times if the compiler is killed from outside.

        Raises:
            CompileError, TimedOut: As :meth:`result`.
        """
        for _ in range(MOST_KILLED - 1):
            with suppress(Killed):
                return self.result(self.submit(source))
        return self.result(self.submit(source))

    def abandon(self) -> None:
        """End all compilations; the next submission starts fresh processes."""
        self._processes.stop()

    def close(self) -> None:
        self._processes.close()
        self.cache.trim()


def _compile(environment: Environment, source: str, limit: float) -> Compiled:
    from tuner.devices import compile_with_spills

    started = time.monotonic()
    with _deadline(limit):
        binary, spilled = compile_with_spills(environment, source)
    cache = CompileCache.default()
    if spilled is not None:
        cache.put(binary_key(environment, source + SPILLS), str(spilled).encode())
    cache.put(binary_key(environment, source), binary)
    return Compiled(binary=binary, seconds=time.monotonic() - started, spill_bytes=spilled)


def _read_spills(cache: CompileCache, environment: Environment, source: str) -> int | None:
    stored = cache.get(binary_key(environment, source + SPILLS))
    return None if stored is None else int(stored)


def _too_long(limit: float) -> Rejected:
    return TimedOut(f"compilation took longer than its limit of {limit:.0f} s; raise it with --compile-timeout")


@contextmanager
def _deadline(limit: float) -> Iterator[None]:
    """Raise TimedOut after ``limit`` seconds, and end every process the compiler started.

    The worker leads its own process group, so its children (nvcc, cicc, ptxas, g++, ld) are in it.
    """

    def expire(signum: int, frame: FrameType | None) -> None:
        ignored = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        signal.signal(signal.SIGTERM, ignored)
        raise _too_long(limit)

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
