"""Build a run: its parts are made in order and passed to each other, so that an open run is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from tuner.bench.drift import as_of_now
from tuner.search.candidates import Candidates
from tuner.search.samplers.background import BackgroundSampler
from tuner.search.samplers.base import Sampler
from tuner.search.samplers.factory import QUICK, sampler_for_run
from tuner.storage import Writer
from tuner.tuning.budget import SearchClock
from tuner.tuning.ceiling_check import CeilingCheck
from tuner.tuning.context import RunContext
from tuner.tuning.delivery import Delivery
from tuner.tuning.pipeline import Pipeline
from tuner.tuning.progress import Progress
from tuner.tuning.proposals import ProposalQueue
from tuner.tuning.rematch import Rematch
from tuner.tuning.resource_filter import ResourceFilter
from tuner.tuning.retries import Retries
from tuner.tuning.run import Run
from tuner.tuning.source_studies import SourceStudy
from tuner.tuning.state import RunState
from tuner.tuning.stopping import Stopping


@contextmanager
def open_run(context: RunContext, source: SourceStudy | None) -> Iterator[Run]:
    """Yield a run that is ready to start; its compilers and its sampler end with the block.

    Args:
        source: Another study's results to start from.
    """
    options, handle, state = context.options, context.handle, state_of(context)
    candidates = Candidates.of(context.searched)
    resource_filter = ResourceFilter(context.searched, candidates)
    clock = SearchClock(context.budget, len(handle.suspects()))
    with ExitStack() as stack:
        sampler = stack.enter_context(closing(_sampler(context, candidates, source)))
        proposals = ProposalQueue(context.searched, sampler, resource_filter, handle, state.results.values())
        pipeline = Pipeline(options, context.space, context.worker.facts, proposals, handle)
        stack.callback(pipeline.close)
        writer = Writer(handle)
        delivery = Delivery(state, pipeline, proposals, writer, context.observer)
        finals = Rematch(context=context, state=state, clock=clock, pipeline=pipeline, delivery=delivery)
        state.costs.prepare = context.budget.elapsed
        yield Run(
            context=context,
            state=state,
            clock=clock,
            proposals=proposals,
            pipeline=pipeline,
            writer=writer,
            delivery=delivery,
            finals=finals,
            stopping=Stopping(context.searched, options, candidates, handle.ended()),
            ceiling_check=CeilingCheck(context.worker, options),
            retries=Retries(),
            filter_stats=resource_filter.stats,
        )


def state_of(context: RunContext) -> RunState:
    """Return the state of the study's stored results, with times corrected to what they would be now."""
    options = context.options
    known, drift = as_of_now(context.handle.results(), context.canary.before)
    if drift:
        context.canary.warn(drift)
    progress = Progress(
        study=context.handle.name,
        problem=options.problem,
        environment=context.worker.facts.environment,
        space=len(context.searched),
        trials=options.trials,
        seconds=options.seconds,
        precision=options.precision,
        known=len(known),
        reused=sum(result.reused for result in known),
    )
    return RunState(progress, known)


def _sampler(context: RunContext, candidates: Candidates, source: SourceStudy | None) -> Sampler:
    """Return the sampler, in its own process if it is slow and the device leaves a core free for it."""
    options = context.options
    make = partial(sampler_for_run, options.sampler, candidates, options.seed, source.known if source else None)
    ahead = not context.shares_host and (source or options.sampler not in QUICK)
    return BackgroundSampler(make) if ahead else make()
