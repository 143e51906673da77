"""``tune replay``: one configuration again, verbosely, on this machine; nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cache import write_whole
from tuner.cli.text import milliseconds
from tuner.conditions import describe
from tuner.errors import Rejected, UsageError
from tuner.exporting import compile_one, spec_of, task_for, template_of
from tuner.render import Rendered, render
from tuner.storage import Store
from tuner.worker import Worker

if TYPE_CHECKING:
    from tuner.protocol import Verdict
    from tuner.results import Result
    from tuner.storage import StudyHandle
    from tuner.templates import KernelTemplate


def replay_trial(
    study: str, trial: int, keep_source: Path | None, storage: str, templates: tuple[KernelTemplate, ...]
) -> None:
    """Compile, check, time and confirm trial number ``trial`` again, saying each step.

    Raises:
        UsageError: No such study, trial or template.
        CompileError: The compiler refuses it again; its log has been printed.
    """
    with Store.open(storage, create=False) as store:
        handle = store.find_study(study)
        result = _result(handle, trial)
        spec = spec_of(handle)
    template = template_of(result, templates)
    click.echo(f"trial {trial}: {result.configuration}")
    click.echo(f"then: {result.outcome}" + (f", {milliseconds(result.seconds)} ms" if result.ok else ""))
    with Worker(spec) as worker:
        rendered = render(template, result.configuration, spec.layer, worker.facts.limits.dialect)
        _keep(rendered, keep_source)
        launch = rendered.launch
        click.echo(f"grid {launch.grid}, block {launch.block}, dynamic shared {launch.shared_bytes} bytes")
        binary = _compile(worker, rendered)
        _print(worker.evaluate(task_for(template, result, rendered, binary, spec)))


def _result(handle: StudyHandle, trial: int) -> Result:
    results = handle.numbered()
    if trial not in results:
        raise UsageError(
            f"study '{handle.name}': no trial {trial}; it has {len(results)}, up to {max(results, default=0)}"
        )
    return results[trial]


def _keep(rendered: Rendered, path: Path | None) -> None:
    if path is None:
        return
    try:
        write_whole(path, rendered.source.encode())
    except OSError as error:
        raise UsageError(f"source {path}: {error.strerror}; give a file in a folder you may write") from None
    click.echo(f"source written to {path}")


def _compile(worker: Worker, rendered: Rendered) -> bytes:
    try:
        binary, seconds = compile_one(worker, rendered)
    except Rejected as error:
        click.echo(error.text)
        raise
    click.echo(f"compiled: {len(binary):,} bytes {f'in {seconds:.2f} s' if seconds else 'from the cache'}")
    return binary


def _print(verdict: Verdict) -> None:
    click.echo(f"now: {verdict.outcome}" + (f": {verdict.text}" if verdict.text else ""))
    if verdict.measurement is None:
        return
    measured, used = verdict.measurement, verdict.resources
    low, high = measured.interval
    click.echo(
        f"{milliseconds(measured.median)} ms, 95% interval {milliseconds(low)} to {milliseconds(high)}, "
        f"{len(measured.samples)} samples; largest error {verdict.max_error:.3g}"
    )
    click.echo(f"registers {used.registers}, shared {used.shared_bytes} bytes, local {used.local_bytes} bytes")
    if state := describe(measured.telemetry):
        click.echo(f"measured at {state}")
    click.echo("samples, ms: " + " ".join(milliseconds(sample) for sample in measured.samples))
