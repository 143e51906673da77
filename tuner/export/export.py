"""Export a study's winner: only if it is verified, not stale, and still right when run once more."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from tuner.bench import worker_process
from tuner.bench.drift import change_since
from tuner.bench.protocol import BenchSpec, Protocol, Task, confirmations
from tuner.bench.worker import Worker
from tuner.devices.compiler import COMPILE_SECONDS, Compiled, Compiler
from tuner.errors import Rejected, StorageError, TunerError, UsageError
from tuner.export import Winner, render_header, render_split, write_header
from tuner.export.proof import code_of, source_of, task_of
from tuner.files import refuse_unwritable
from tuner.kernels.loading import load_template
from tuner.kernels.render import Rendered
from tuner.kernels.template import KernelTemplate
from tuner.problems.accuracy import Precision
from tuner.results import OK, Evaluation, Measurement, Result
from tuner.storage import Champion, StudyView, read_study
from tuner.storage.dashboard_note import resume_command
from tuner.tuning.fingerprint import fingerprint

OTHER_TIME = 3.0  # times as long as the store says: not the same kernel, or not the same number


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written, what the configuration did when it was run once more, and whether the device is slower now.

    Attributes:
        chosen: Which of several studies it is of, in a line for people.
    """

    chosen: str
    path: Path
    trial: int
    result: Result
    evaluation: Evaluation
    change: str


def export_best(
    study: str, output: Path | None, storage: str, templates: tuple[KernelTemplate, ...], *, split: bool = False
) -> Exported:
    """Compile and run the verified winner of ``study`` once more on its device, then write its header.

    Args:
        study: A study's name, or a problem for its newest study.
        output: The header's path; ``studies/NAME_best.h`` if None, whose folder is made.
        split: The kernel goes into a .cu file beside the header.

    Raises:
        UsageError: No such study, its device is not here, or the winner is stale: its sources, tools or data have
            changed since it was measured.
        NoWinner: No finals have chosen one yet.
        TunerError: It is not right any more.
        StorageError: The header cannot be written; an older one stays as it was.
    """
    view = read_study(storage, study)
    champion = view.verified()
    best = champion.result
    path = output or Path("studies") / header_name(view.problem.name)
    if split and (path.suffix == ".cu" or view.environment.kind != "cuda"):
        why = "it is C as it is" if path.suffix != ".cu" else f"give the header, {path.with_suffix('.h')}"
        raise UsageError(f"export --split: {path} is no header of CUDA with its kernel in a .cu file; {why}")
    if output is None:
        _make_folder(path.parent)
    for each in (path, path.with_suffix(".cu")) if split else (path,):
        refuse_unwritable(each, "header")
    template = template_of(best, templates, view)
    with Worker(spec_of(view)) as worker:
        _refuse_stale(view, best, template, worker)
        winner = _winner(view, champion, template, worker, path)
        texts = _texts(winner, split=split)
        now = _run_text(winner, texts, worker)
        change = change_since(best, list(view.results.values()), worker.health())
        header, source = _with_time(winner, now, texts, split=split)
    if split:
        write_header(path.with_suffix(".cu"), source)
    write_header(path, header)
    return Exported(chosen=view.chosen, path=path, trial=champion.trial, result=best, evaluation=now, change=change)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"folder {folder} cannot be made ({error.strerror}); give another path with -o") from None


def template_of(result: Result, templates: tuple[KernelTemplate, ...], study: StudyView) -> KernelTemplate:
    """Return the template a result was made with: one the user names again, else the study's own, else a built-in one.

    Raises:
        UsageError: It is none of these, its file is gone, or it has other parameters now.
    """
    name = result.configuration.template
    file = dict(study.key.sources).get(name, "")
    found = next((each for each in templates if each.name == name and (each.home or not file)), None)
    if found is None and not file:
        raise UsageError(f"template '{name}' is not among the built-in ones; give its file with --template PATH")
    if found is None:
        found = _remembered(name, Path(file), study)
    found.configuration(result.configuration.as_dict())
    return found


def _remembered(name: str, file: Path, study: StudyView) -> KernelTemplate:
    if not os.path.exists(file):
        raise UsageError(
            f"study '{study.name}': its template's file {file} is gone; put it back, or give it with --template PATH"
        )
    found = load_template(file)
    if found.name != name:
        raise UsageError(f"study '{study.name}': {file} now declares the template '{found.name}', not '{name}'")
    return found


def spec_of(study: StudyView) -> BenchSpec:
    """Return how a study's trials were measured."""
    return BenchSpec(
        device=study.environment.device,
        problem=study.problem,
        precision=cast(Precision, study.key.precision),
        protocol=Protocol(warm_l2=study.key.protocol.endswith("-warm")),
    )


def task_for(template: KernelTemplate, result: Result, rendered: Rendered, binary: bytes, spec: BenchSpec) -> Task:
    """Return a task that measures in full and confirms on second inputs and ragged batches."""
    confirm = confirmations(template, result.configuration, spec.problem)
    return Task(binary=binary, rendered=rendered, prune=False, confirm=confirm)


def compile_one(worker: Worker, rendered: Rendered) -> Compiled:
    """Compile one source for a worker's device.

    Raises:
        Rejected: The compiler refused it or took too long.
    """
    compiler = Compiler(worker.facts.environment, 1, COMPILE_SECONDS)
    try:
        return compiler.compiled(rendered.source)
    finally:
        compiler.close()


def header_name(problem: str) -> str:
    return f"{problem.rpartition('/')[2].lower()}_best.h"


def _refuse_stale(study: StudyView, best: Result, template: KernelTemplate, worker: Worker) -> None:
    now = fingerprint(template, best.configuration, worker.spec, worker.facts)
    if now != best.fingerprint:
        raise UsageError(
            f"study '{study.name}': its winner is stale, since sources, tools, driver or data have changed; "
            f"{study.resume} measures again"
        )


def _texts(winner: Winner, *, split: bool) -> tuple[str, str]:
    return render_split(winner) if split else (render_header(winner), "")


def _run_text(winner: Winner, texts: tuple[str, str], worker: Worker) -> Evaluation:
    """Compile and run what is to be written, by itself: its own text, names and grid, no cache.

    Raises:
        TunerError: It does not compile, is wrong, or takes another time than the study says.
    """
    failed = f"study '{winner.study}': its winner failed when its header was compiled and run"
    try:
        build = partial(worker.ask, worker_process.compile_text, limit=COMPILE_SECONDS)
        task = task_of(winner, source_of(winner, *texts), build)
    except Rejected as error:
        raise TunerError(f"{failed} ({error}); nothing is written") from None
    now = worker.evaluate(task).evaluation
    if now.outcome != OK or not now.confirmed:
        reason = now.message or now.outcome
        raise TunerError(f"{failed} ({reason}); nothing is written")
    _refuse_other_time(winner, now.measurement)
    return now


def _refuse_other_time(winner: Winner, now: Measurement | None) -> None:
    """Refuse a stored time that today's contradicts, by more than a slower day or a loaded machine explains."""
    stored = winner.result.measurement
    if stored is None or now is None:
        return
    day = now.canary / stored.canary if now.canary and stored.canary else 1.0
    times = now.median / stored.median / max(1.0, day)
    if times > OTHER_TIME:
        raise TunerError(
            f"study '{winner.study}': its winner takes {now.median * 1e3:.4g} ms now, and {stored.median * 1e3:.4g} ms "
            f"stand in the store; nothing is written; {winner.command} measures again"
        )


def _with_time(winner: Winner, now: Evaluation, texts: tuple[str, str], *, split: bool) -> tuple[str, str]:
    """Return the texts with what was just measured; all but their comments is what was run."""
    timed = replace(
        winner.result.evaluation, measurement=now.measurement, max_error=now.max_error, text=now.text, confirmed=True
    )
    again = replace(winner.result, evaluation=timed, started=time.time())
    written = _texts(replace(winner, result=again), split=split)
    if tuple(map(code_of, written)) != tuple(map(code_of, texts)):
        raise TunerError(
            f"study '{winner.study}': its template gives another source when asked again; nothing is written"
        )
    return written


def _options(worker: Worker) -> str:
    """Return what gives the source the vectors that were measured, whatever CPU the driver takes this one for."""
    return f"-cl-std=CL1.2 -cl-mad-enable -DNATIVE_WORDS={worker.facts.limits.vector_words}"


def _winner(study: StudyView, champion: Champion, template: KernelTemplate, worker: Worker, path: Path) -> Winner:
    return Winner(
        result=champion.result,
        problem=study.problem,
        environment=study.measured_in[champion.trial],
        template=template,
        study=study.name,
        trial=champion.trial,
        command=resume_command(study.key, study.environment.device),
        tolerance=worker.facts.tolerance,
        unit=worker.facts.unit,
        file=path.name,
        naive_seconds=study.yardstick.naive,
        precision=study.key.precision,
        options="" if study.environment.kind == "cuda" else _options(worker),
    )
