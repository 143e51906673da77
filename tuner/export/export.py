"""Export a study's winner: only if it is verified, not stale, and still right when run once more."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.bench import worker_process
from tuner.bench.drift import change_since
from tuner.bench.worker import Worker
from tuner.devices.compiler import COMPILE_SECONDS, Compiled
from tuner.errors import Rejected, StorageError, TunerError, UsageError
from tuner.export import Winner, render_header, render_split, write_header
from tuner.export.proof import LAUNCHES, code_of, prepared_text, source_of
from tuner.files import refuse_unwritable
from tuner.kernels.template import KernelTemplate
from tuner.results import OK, Evaluation, Measurement, Result
from tuner.storage import Champion, StudyView, read_study
from tuner.storage.dashboard_note import resume_command
from tuner.tuning.evaluation import Built, Prepared, evaluate
from tuner.tuning.fingerprint import fingerprint
from tuner.tuning.stored_result import spec_of, template_of

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
        built = _build_text(worker, prepared_text(winner, source_of(winner, *texts)))
    except Rejected as error:
        raise TunerError(f"{failed} ({error}); nothing is written") from None
    now = evaluate(worker, built, launches=LAUNCHES)
    if now.outcome != OK or not now.confirmed:
        reason = now.message or now.outcome
        raise TunerError(f"{failed} ({reason}); nothing is written")
    _refuse_other_time(winner, now.measurement)
    return now


def _build_text(worker: Worker, prepared: Prepared) -> Built:
    """Compile a text as a user's compiler would: as it stands, without the cache, which has what was measured.

    Raises:
        Rejected: The compiler refused it or took too long.
    """
    source, started = prepared.rendered.source, time.monotonic()
    binary = worker.ask(worker_process.compile_text, source, limit=COMPILE_SECONDS)
    return prepared.built(Compiled(binary=binary, seconds=time.monotonic() - started))


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
