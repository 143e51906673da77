"""Enter our kernels into the worker: compile them, then check one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.bench.protocol import Task, Verdict
from tuner.bench.worker import Worker
from tuner.compare.our_side import enter
from tuner.errors import Rejected, TunerError
from tuner.kernels.configuration import Configuration
from tuner.kernels.template import KernelTemplate
from tuner.results import Evaluation
from tuner.tuning.evaluation import build, prepare


def task_of(worker: Worker, template: KernelTemplate, configuration: Configuration, *, confirm: bool) -> Task:
    """Compile a configuration and return the worker's task; with ``confirm`` it is also checked on other inputs.

    Raises:
        TunerError: It does not compile.
    """
    try:
        built = build(worker, prepare(template, configuration, worker.spec.problem, worker.facts))
    except Rejected as error:
        raise TunerError(f"{configuration.template} does not compile: {error}") from None
    return built.task(confirm=confirm)


def verdicts_of(worker: Worker, entries: Sequence[tuple[str, Task]]) -> dict[str, Verdict]:
    """Enter each in the worker; if one kills the process, the others enter its replacement."""
    verdicts: dict[str, Verdict] = {}
    for name, task in entries:
        try:
            verdicts[name] = worker.ask(enter, name, task)
        except Rejected as error:
            verdicts[name] = Verdict(evaluation=Evaluation.rejected(error), lost=True)
        if verdicts[name].lost:
            worker.replace()
            return {name: verdicts[name]} | verdicts_of(worker, [entry for entry in entries if entry[0] != name])
    return verdicts
