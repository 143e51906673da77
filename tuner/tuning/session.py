"""A tuning run from its options to its report: the worker, the study, the starting point, the loop."""

from __future__ import annotations

import time
from functools import partial

from tuner.bench.protocol import BenchFacts
from tuner.bench.worker import Worker
from tuner.kernels.limits import DeviceLimits
from tuner.kernels.space import Space, enumerate_space
from tuner.kernels.template import KernelTemplate
from tuner.storage import Announcement, Store, StudyHandle, foresee
from tuner.tuning.assembly import open_run
from tuner.tuning.budget import Budget
from tuner.tuning.canary import Canary
from tuner.tuning.context import RunContext
from tuner.tuning.fingerprint import study_key
from tuner.tuning.interrupt import Interrupt
from tuner.tuning.options import RunOptions
from tuner.tuning.progress import Observer, Report, tell_doing
from tuner.tuning.reuse import carry_over
from tuner.tuning.source_studies import find_source
from tuner.tuning.template_checks import check_not_too_many, check_some_left, left_out_by_heuristics, suited, try_python


def tune(options: RunOptions, observer: Observer, started: float | None = None) -> Report:
    """Run a tuning study until its budget is spent, its space is exhausted, or Ctrl-C.

    No configuration can end it: whatever a configuration does is recorded as its outcome. Results are in the store when
    this returns, also after ``KeyboardInterrupt``, which ends the search early and is reported as the reason.

    Args:
        started: When the command began, by ``time.monotonic``; its time counts from then. Default: now.

    Raises:
        UsageError: Something requested does not exist here; nothing was written.
        StorageError: The store cannot be opened or written; what was committed stays. During the search this
            is an ``Unstored``, which has the report.
    """
    started = time.monotonic() if started is None else started
    foresee(options.storage)
    templates = suited(options)
    tell = partial(tell_doing, observer)
    with (
        Announcement(options.storage, options.problem, options.precision) as announced,
        Worker(options.spec, options.trial_timeout, tell) as worker,
    ):
        tell("valid configurations of each template")
        space, searched, lacking = valid_spaces(options, templates, worker.facts.limits)
        with Store.open(options.storage) as store:
            tell("the store, and results to begin with")
            source = find_source(
                store, study_key(space, options.spec, worker.facts, options.heuristics), searched, options
            )
            handle, news = open_study(store, space, options, worker.facts)
            announced.join(handle)
            for line in (*news, *lacking, *([str(source)] if source else [])):
                observer.says(line)
            context = RunContext(
                options=options,
                observer=observer,
                worker=worker,
                space=space,
                searched=searched,
                handle=handle,
                budget=Budget(options.seconds, started),
                interrupt=Interrupt(),
                canary=Canary(worker, observer),
            )
            tell("the sampler")
            with open_run(context, source) as run:
                end = run.to_the_end()
            return run.report(end)


def valid_spaces(
    options: RunOptions, templates: tuple[KernelTemplate, ...], limits: DeviceLimits
) -> tuple[Space, Space, list[str]]:
    """Return the study's space, the part that this run searches, and lines on what they leave out.

    Raises:
        UsageError: Nothing is left, or more than can be searched; or a template's Python fails.
    """
    given = templates if options.heuristics else tuple(each.without_heuristics() for each in templates)
    space = enumerate_space(given, options.problem, limits)
    lacking = check_some_left(space, options)
    searched = options.only.of(space)
    check_not_too_many(searched, options)
    whole = f"only {options.only}: {len(searched):,} of {len(space):,} valid configurations"
    lacking = [*([whole] if options.only else []), *lacking, *left_out_by_heuristics(space)]
    return (
        space,
        searched,
        lacking + [line for part in searched.parts if part.template.home for line in try_python(part)],
    )


def open_study(store: Store, space: Space, options: RunOptions, facts: BenchFacts) -> tuple[StudyHandle, list[str]]:
    """Create or resume the study, and take over valid results that its siblings have measured meanwhile."""
    key = study_key(space, options.spec, facts, options.heuristics)
    handle = store.study(key, facts.environment, [part.template for part in space.parts])
    return handle, carry_over(store, handle, space, options.spec, facts)
