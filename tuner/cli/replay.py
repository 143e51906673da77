"""``tune replay``: one configuration again, verbosely, on this machine; nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import naming, options
from tuner.cli.support.folding import echo
from tuner.cli.support.rows import resources_line
from tuner.cli.support.text import echo_wrapped, milliseconds
from tuner.errors import Rejected, UsageError
from tuner.files import refuse_unwritable, write_whole

if TYPE_CHECKING:
    from tuner.bench.protocol import BenchSpec
    from tuner.bench.worker import Worker
    from tuner.kernels.render import Rendered
    from tuner.kernels.template import KernelTemplate
    from tuner.results import Environment, Evaluation
    from tuner.storage import StudyView
    from tuner.tuning.evaluation import Built, Prepared


@click.command("replay", short_help="Run one trial again, verbosely.")
@naming.study_and_trial
@click.option("--keep-source", type=click.Path(path_type=Path), metavar="FILE", help="Write the rendered source here.")
@click.option("--profile", is_flag=True, help="Also run it once under ncu and print hardware counters.")
@options.templates
@options.storage
def command(study: str, trial: int, keep_source: Path | None, profile: bool, **rest: Any) -> None:
    """Run one configuration of a study again, verbosely; nothing is stored."""
    from tuner.bench.worker import Worker
    from tuner.tuning.stored_result import spec_of, template_of

    templates = options.chosen_templates(rest["templates"])
    view = naming.read(rest["storage"], study)
    result, spec = view.trial(trial), spec_of(view)
    if keep_source is not None:
        refuse_unwritable(keep_source, "source")
    if profile:
        _check_profiler(view)
    template = template_of(result, templates, view)
    echo_wrapped(f"trial {trial}: {result.configuration}")
    echo(f"then: {result.outcome}" + (f", {milliseconds(result.seconds)} ms" if result.ok else ""))
    with Worker(spec) as worker:
        rendered = _replay(worker, view, trial, template, keep_source)
    if profile:
        _print_profile(spec, rendered)


def _replay(
    worker: Worker, view: StudyView, trial: int, template: KernelTemplate, keep_source: Path | None
) -> Rendered:
    """Compile, check, time and confirm a trial again, reporting each step; return its source.

    Raises:
        CompileError: The compiler refuses it again; its log has been printed.
    """
    from tuner.bench.drift import change_since
    from tuner.tuning.evaluation import evaluate, prepare
    from tuner.tuning.fingerprint import fingerprint

    result = view.trial(trial)
    prepared = prepare(template, result.configuration, worker.spec.problem, worker.facts)
    launch = prepared.rendered.launch
    _keep(prepared.rendered, keep_source)
    if fingerprint(template, result.configuration, worker.spec, worker.facts) != result.fingerprint:
        echo_wrapped(_change(template, view.measured_in[trial], worker.facts.environment))
    echo_wrapped(f"grid {launch.grid}, block {launch.block}, dynamic shared {launch.shared_bytes} bytes")
    evaluation = evaluate(worker, _build(worker, prepared))
    _print(evaluation)
    if evaluation.measurement and (change := change_since(result, list(view.results.values()), worker.health())):
        echo_wrapped(change)
    return prepared.rendered


def _change(template: KernelTemplate, then: Environment, now: Environment) -> str:
    """Say what has changed since a trial was measured, as far as known."""
    pairs = ((each, getattr(then, each), getattr(now, each)) for each in ("model", "driver", "toolkit", "arch"))
    told = [f"the {name} was {before} and is {after}" for name, before, after in pairs if before != after]
    what = ", ".join(told) or f"the source of template {template.name}, its launch or the inputs"
    return f"changed since that trial was measured: {what}; what follows is as it is now"


def _check_profiler(view: StudyView) -> None:
    from tuner.profiling import find_ncu

    device = view.environment.device
    if view.environment.kind != "cuda":
        raise UsageError(f"replay --profile: ncu reads NVIDIA GPUs, this study ran on {device}; leave it out")
    find_ncu()


def _print_profile(spec: BenchSpec, rendered: Rendered) -> None:
    from tuner.profiling import profile

    echo("\ncounters of one launch, by ncu:")
    for counter in profile(spec, rendered):
        value = f"{counter.value:,.6g}" if isinstance(counter.value, float) else counter.value
        echo(f"    {counter.name:<36} {value:>16} {counter.unit}")


def _keep(rendered: Rendered, path: Path | None) -> None:
    if path is None:
        return
    try:
        write_whole(path, rendered.source.encode())
    except OSError as error:
        raise UsageError(f"source {path}: {error.strerror}; give a file in a folder you may write") from None
    echo_wrapped(f"source written to {path}")


def _build(worker: Worker, prepared: Prepared) -> Built:
    from tuner.tuning.evaluation import build

    try:
        built = build(worker, prepared)
    except Rejected as error:
        echo(error.text)
        raise
    compiled = built.compiled
    source = f"in {compiled.seconds:.2f} s" if compiled.seconds else "from the cache"
    echo(f"compiled: {len(compiled.binary):,} bytes {source}")
    return built


def _print(evaluation: Evaluation) -> None:
    from tuner.bench.telemetry import describe

    message, _, log = evaluation.text.partition("\n")
    echo_wrapped(f"now: {evaluation.outcome}" + (f": {message}" if message else ""))
    if log:
        echo(log)
    if evaluation.measurement is None:
        return
    measured = evaluation.measurement
    low, high = measured.interval
    echo_wrapped(
        f"{milliseconds(measured.median)} ms, 95% interval {milliseconds(low)} to {milliseconds(high)}, "
        f"{len(measured.samples)} samples; largest error {evaluation.max_error:.3g}"
    )
    echo_wrapped(resources_line(evaluation.resources))
    if state := describe(measured.telemetry):
        echo_wrapped(f"measured at {state}")
    echo_wrapped("samples, ms: " + " ".join(milliseconds(sample) for sample in measured.samples))
