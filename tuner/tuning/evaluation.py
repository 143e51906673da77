"""Evaluate one configuration: render it, compile it, hand it to the worker.

A run and its finals compile many configurations ahead and so call the steps separately; export, replay, verify and
compare have one configuration, and call :func:`build`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.bench.protocol import BenchFacts, Task, confirmations
from tuner.bench.worker import Worker
from tuner.devices.compiler import COMPILE_SECONDS, Compiled, Compiler
from tuner.kernels.configuration import Configuration
from tuner.kernels.launch import Launch
from tuner.kernels.render import Rendered, render
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem
from tuner.results import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A kernel's source and launches, ready for the compiler.

    Attributes:
        confirm: Numbers of rows, each with its launch, for which a candidate for the best must be right too.
    """

    rendered: Rendered
    confirm: tuple[tuple[int, Launch], ...] = ()

    def built(self, compiled: Compiled) -> Built:
        """Combine it with its binary."""
        return Built(rendered=self.rendered, confirm=self.confirm, compiled=compiled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A compiled kernel, ready for the worker."""

    rendered: Rendered
    confirm: tuple[tuple[int, Launch], ...]
    compiled: Compiled

    def task(
        self, *, incumbent: float | None = None, prune: bool = False, confirm: bool = True, launches: int = 0
    ) -> Task:
        """Return the worker's task; by default it measures in full and confirms.

        Args:
            incumbent: Seconds of the best so far; only a faster result is confirmed.
            prune: Stop early if it is clearly slower than that.
            confirm: Check it on second inputs and ragged batches too.
            launches: Number of additional launches at the end, each of them checked.
        """
        return Task(
            binary=self.compiled.binary,
            rendered=self.rendered,
            incumbent=incumbent,
            prune=prune,
            confirm=self.confirm if confirm else (),
            launches=launches,
        )


def prepare(template: KernelTemplate, configuration: Configuration, problem: Problem, facts: BenchFacts) -> Prepared:
    """Render a configuration for the device.

    Raises:
        Infeasible: The template's Python fails for it.
    """
    rendered = render(template, configuration, problem, facts.limits.dialect)
    return Prepared(rendered=rendered, confirm=confirmations(template, configuration, problem))


def build(worker: Worker, prepared: Prepared) -> Built:
    """Compile a kernel now, or find its binary in the cache.

    Raises:
        Rejected: The compiler refused it or took too long.
    """
    compiler = Compiler(worker.facts.environment, 1, COMPILE_SECONDS)
    try:
        return prepared.built(compiler.compiled(prepared.rendered.source))
    finally:
        compiler.close()


def evaluate(worker: Worker, built: Built, *, launches: int = 0) -> Evaluation:
    """Check and time a kernel in full, and confirm it on second inputs and ragged batches."""
    return built.compiled.completed(worker.evaluate(built.task(launches=launches)).evaluation)
