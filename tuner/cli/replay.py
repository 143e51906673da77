"""``tune replay``: one configuration again, verbosely, on this machine; nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from tuner.cache import write_whole
from tuner.cli.text import milliseconds
from tuner.compiler import COMPILE_SECONDS, Compiler
from tuner.errors import Rejected, UsageError
from tuner.protocol import BenchSpec, Task, Verdict, ragged_batches
from tuner.reference import Precision
from tuner.render import Rendered, render
from tuner.storage import Store
from tuner.worker import Worker

if TYPE_CHECKING:
    from tuner.layers import ConvLayer
    from tuner.results import Result
    from tuner.storage import StudyHandle
    from tuner.templates import KernelTemplate


def replay_trial(
    study: str, trial: int, keep_source: Path | None, storage: str, templates: tuple[KernelTemplate, ...]
) -> None:
    """Compile, check, time and confirm trial number ``trial`` again, saying each step.

    Raises:
        UsageError: No such study, trial or template.
        Rejected: It fails again; the message says how.
    """
    with Store.open(storage, create=False) as store:
        handle = store.find_study(study)
        result = _result(handle, trial)
        device, layer = handle.environment.device, handle.layer
    template = template_of(result, templates)
    spec = BenchSpec(device=device, layer=layer, precision=cast(Precision, handle.key.precision))
    click.echo(f"trial {trial}: {result.configuration}")
    click.echo(f"then: {result.outcome}" + (f", {milliseconds(result.seconds)} ms" if result.ok else ""))
    with Worker(spec) as worker:
        rendered = render(template, result.configuration, layer, worker.facts.limits.dialect)
        _keep(rendered, keep_source)
        click.echo(
            f"grid {rendered.launch.grid}, block {rendered.launch.block}, dynamic shared {rendered.launch.shared_bytes}"
        )
        verdict = worker.evaluate(task_for(template, result, rendered, _compile(worker, rendered), layer))
    _print(verdict)


def template_of(result: Result, templates: tuple[KernelTemplate, ...]) -> KernelTemplate:
    """Return the template a result was made with.

    Raises:
        UsageError: It is none of those given, or has other parameters now.
    """
    name = result.configuration.template
    for template in templates:
        if template.name == name:
            template.configuration(result.configuration.as_dict())
            return template
    raise UsageError(f"template '{name}' is not among the built-in ones; give its file with --template PATH")


def task_for(template: KernelTemplate, result: Result, rendered: Rendered, binary: bytes, layer: ConvLayer) -> Task:
    """Return a task that measures in full and confirms on second inputs and ragged batches."""
    confirm = tuple(
        (batch, template.launch_of(result.configuration, layer.with_batch(batch))) for batch in ragged_batches(layer.B)
    )
    return Task(binary=binary, rendered=rendered, prune=False, confirm=confirm)


def _result(handle: StudyHandle, trial: int) -> Result:
    results = handle.results()
    if not 0 <= trial < len(results):
        raise UsageError(f"study '{handle.name}': no trial {trial}; it has trials 0 to {len(results) - 1}")
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
    compiler = Compiler(worker.facts.environment, 1, COMPILE_SECONDS)
    try:
        compiled = compiler.result(compiler.submit(rendered.source))
    except Rejected as error:
        click.echo(error.text)
        raise
    finally:
        compiler.close()
    click.echo(
        f"compiled: {len(compiled.binary):,} bytes"
        + (f" in {compiled.seconds:.2f} s" if compiled.seconds else ", cached")
    )
    return compiled.binary


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
    click.echo("samples, ms: " + " ".join(milliseconds(sample) for sample in measured.samples))
