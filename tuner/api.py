"""``tuner.tune``: a tuning run from Python, with the defaults of ``tune run``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.bench.protocol import Protocol
from tuner.errors import UsageError
from tuner.kernels.loading import builtin_templates, load_template
from tuner.kernels.subspace import Restriction
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem
from tuner.storage.location import default_url
from tuner.storage.mapping import choices_of_templates
from tuner.suggestions import alternatives
from tuner.tuning import Observer, Report, RunOptions
from tuner.tuning.options import AUTO, DEFAULT_SECONDS, OFF
from tuner.tuning.request import as_path, as_words, asked_device, asked_precision, asked_problem, asked_sampler
from tuner.tuning.session import tune as run_study


def tune(  # noqa: PLR0913  (what `tune run` takes)
    problem: str | Problem | RunOptions | None = None,
    observer: Observer | None = None,
    *,
    device: str = "auto",
    trials: int | None = None,
    seconds: float | None = None,
    batch: int | None = None,
    precision: str = "fp32",
    templates: str | Path | KernelTemplate | Sequence[str | Path | KernelTemplate] = (),
    only: str | Sequence[str] = (),
    storage: str | Path | None = None,
    sampler: str | None = None,
    stop: str | None = None,
    stop_at: float | None = None,
    warm_start: str = AUTO,
    seed: int = 0,
    jobs: int | None = None,
    data: str | Path | None = None,
    trial_timeout: float | None = None,
    compile_timeout: float | None = None,
    warm_l2: bool = False,
    layer: str | Problem | RunOptions | None = None,
) -> Report:
    """Tune a problem: search, check, time, and return the fastest correct configuration; results are in the store.

    Works in a script (no ``__main__`` guard is needed), from standard input, and in a notebook. The same call again
    continues: nothing is measured twice.

    Args:
        problem: ``"conv2"``, ``"fa18/conv2"``, ``"C=8,H=32,W=48,M=32,K=3"``, a problem, or all options of a run.
        observer: Told of news and trials. None: a progress bar on a terminal and in a notebook, nothing elsewhere;
            ``Observer()`` shows nothing.
        device: ``auto`` is the first NVIDIA GPU, else the CPU.
        trials, seconds: When to stop; with neither it stops by itself, after a minute and a half at most.
        batch: Images a launch; default: 10,000 on a GPU, as many as take 50 ms on a CPU.
        templates: Only these: names, paths of your own, or templates.
        only: Part of the space: ``"TILE_W=1,2,4 COPY_BY=register"``.
        storage: Path or URL; ``TUNER_STORAGE``, else ``studies/tuner.db``.
        layer: The former name of ``problem``.

    Raises:
        UsageError: Something asked for does not exist here; nothing was written.
        TunerError: The device or the store failed; what was finished is in the store.
    """
    asked = problem if layer is None else layer
    if asked is None or (problem is not None and layer is not None):
        raise UsageError('tune: give one problem, such as tune("conv2")')
    if isinstance(asked, RunOptions):
        return _watched(asked, observer)
    name = asked_device(device)
    what = asked_problem(asked, batch, name)
    chosen = _templates(templates, what.kind)
    unbounded = trials is None and seconds is None
    options = RunOptions(
        problem=what,
        device=name,
        templates=chosen,
        storage=str(storage) if storage else default_url(),
        sampler=asked_sampler(sampler),
        seed=seed,
        only=Restriction.parse(as_words(only), choices_of_templates(chosen)),
        trials=trials,
        seconds=DEFAULT_SECONDS if unbounded else seconds,
        stop_at=stop_at,
        stop=stop or (AUTO if unbounded else OFF),
        warm_start=warm_start,
        jobs=jobs or os.cpu_count() or 1,
        trial_timeout=trial_timeout,
        compile_timeout=compile_timeout,
        data=as_path(data),
        precision=asked_precision(precision),
        protocol=Protocol(warm_l2=warm_l2),
    )
    return _watched(options, observer)


def _watched(options: RunOptions, observer: Observer | None) -> Report:
    if observer is not None:
        return run_study(options, observer)
    from tuner.cli.support.live import watching

    with watching() as watcher:
        return run_study(options, watcher)


def _templates(given: Any, kind: str) -> tuple[KernelTemplate, ...]:
    """Return the named templates, built-in or by path, as they are, or mixed; all built-in ones of a kind for none."""
    known = builtin_templates(kind)
    listed = (given,) if isinstance(given, str | Path | KernelTemplate) else tuple(given)
    return tuple(_template(each, known) for each in listed) or tuple(known.values())


def _template(given: str | Path | KernelTemplate, known: dict[str, KernelTemplate]) -> KernelTemplate:
    if isinstance(given, KernelTemplate):
        return given
    if isinstance(given, Path) or "/" in given or given.endswith((".py", ".cu")):
        return load_template(Path(given))
    if given not in known:
        raise UsageError(
            f"template '{given}' is unknown; give a name or a .py file; {alternatives(given, list(known))}"
        )
    return known[given]
