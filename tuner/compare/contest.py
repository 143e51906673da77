"""Compare one problem's best configuration with a library, the baselines and the roofline, in one run on one card.

Our kernels run in the usual worker, PyTorch in a process of its own; each sample is requested by a message and waited
for, so that only one of them ever uses the device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from tuner.bench.protocol import BenchSpec, Verdict
from tuner.bench.roofline import operands_of, roof
from tuner.bench.worker import Worker
from tuner.compare.contenders import StudyWinner, baseline, best_found, winner_for
from tuner.compare.entries import task_of, verdicts_of
from tuner.compare.options import CompareOptions
from tuner.compare.our_side import ReferenceFacts, hand_over, sample
from tuner.compare.rounds import Contender, ratio, run_rounds
from tuner.compare.rows import Comparison, Row, Variant, variants
from tuner.compare.torch_process import TorchProcess, installed
from tuner.compare.torch_side import TorchSpec
from tuner.errors import TunerError
from tuner.kernels.configuration import Configuration
from tuner.problems.problem import LibraryCall
from tuner.processes.scratch import Scratch
from tuner.results import OK, Measurement

OURS = "tuner's best"
NO_TORCH = "PyTorch is not installed; pip install torch"
NO_CALL = "PyTorch has no one function that computes this"
NO_DEVICE = "PyTorch runs on NVIDIA GPUs and CPUs, not on this device"
Says = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class _Card:
    """A row of the table before it is complete."""

    row: Row
    entrant: Contender | None = None


@dataclass(slots=True)
class _Contest:
    """The rows in order; each is prepared, and those that succeed are sampled together."""

    says: Says
    cards: list[_Card] = field(default_factory=list)

    def add(self, row: Row, take: Callable[[], float] | None = None) -> None:
        entrant = Contender(name=row.name, sample=take) if take else None
        self.cards.append(_Card(row=row, entrant=entrant))

    def run(self) -> None:
        entrants = [card.entrant for card in self.cards if card.entrant]
        self.says(f"timing {len(entrants)} contenders in turn")
        run_rounds(entrants)

    def rows(self, handed: ReferenceFacts) -> tuple[Row, ...]:
        ours = self.cards[0].entrant
        return tuple(_finished(card, ours, handed) for card in self.cards)


def compare(asked: CompareOptions, says: Says) -> Comparison:
    """Check and time every contender.

    Raises:
        TunerError: The store has no verified configuration, or it fails now.
        UsageError: There is no such device here.
    """
    found = best_found(asked)
    spec = BenchSpec(device=asked.device, problem=asked.problem, precision=asked.precision, data=asked.data)
    with ExitStack() as stack:
        says("preparing the device: inputs and reference")
        worker = stack.enter_context(Worker(spec))
        best = winner_for(found, worker.facts.environment)
        folder = str(stack.enter_context(Scratch()).folder) if installed() else None
        contest = _Contest(says)
        _enter_ours(contest, worker, best, asked)
        handed = worker.ask(hand_over, folder)
        pytorch, call = "", asked.problem.LIBRARY
        if call is None:
            contest.add(Row(name="PyTorch", precision="fp32", failure=NO_CALL))
        elif folder is None or worker.facts.environment.kind not in ("cuda", "cpu"):
            contest.add(
                Row(name=f"{call.library} (PyTorch)", precision="fp32", failure=NO_DEVICE if folder else NO_TORCH)
            )
        else:
            torch = _torch_spec(worker, handed, folder, call)
            pytorch = _enter_torch(contest, stack, worker, torch, asked.compiled)
        contest.run()
        rows = contest.rows(handed)
    if rows[0].failure:
        raise TunerError(f"{OURS} failed during the comparison: {rows[0].failure}")
    return Comparison(
        problem=asked.problem,
        precision=asked.precision,
        environment=worker.facts.environment,
        study=best.study,
        trial=best.trial,
        rows=rows,
        roof=roof(asked.problem, worker.facts.environment, asked.precision),
        own_roof=roof(asked.problem, worker.facts.environment, operands_of(best.result.configuration)),
        pytorch=pytorch,
        notes=_notes(best, worker),
    )


def _notes(best: StudyWinner, worker: Worker) -> tuple[str, ...]:
    if best.model == worker.facts.environment.model:
        return ()
    return (f"the configuration is the best found on {best.model}, not on this device; tune run makes one here",)


def _enter_ours(contest: _Contest, worker: Worker, best: StudyWinner, asked: CompareOptions) -> None:
    """Enter our best, checked and confirmed again, then the baselines.

    Raises:
        TunerError: Our best is wrong, or no longer compiles or runs.
    """
    contest.says("checking our kernels on every element")
    entries = [(OURS, task_of(worker, best.template, best.result.configuration, confirm=True))]
    row = Row(name=OURS, precision=asked.precision, configuration=best.result.configuration)
    contest.add(row, lambda: worker.ask(sample, OURS))
    for name in asked.problem.RIVALS:
        try:
            template, configuration = baseline(name, asked.problem, worker.facts.limits)
            entries.append((name, task_of(worker, template, configuration, confirm=False)))
        except TunerError as error:
            contest.add(Row(name=name, precision="fp32", failure=str(error)))
            continue
        contest.add(_row_of(name, configuration), lambda name=name: worker.ask(sample, name))  # type: ignore[misc]
    verdicts = verdicts_of(worker, entries)
    for card in contest.cards:
        _judge(card, verdicts.get(card.row.name))


def _row_of(name: str, configuration: Configuration) -> Row:
    return Row(name=name, precision="fp32", configuration=configuration)


def _judge(card: _Card, verdict: Verdict | None) -> None:
    """Record the verdict on an entry; our best must pass."""
    if verdict is None:
        return
    if verdict.outcome == OK:
        card.row = replace(card.row, max_error=verdict.evaluation.max_error)
        return
    reason = f"{verdict.outcome}: {verdict.evaluation.message or 'no message'}"
    if card.row.name == OURS:
        raise TunerError(f"{card.row.configuration} is verified in the store but fails here: {reason}")
    card.row, card.entrant = replace(card.row, failure=reason), None


def _enter_torch(contest: _Contest, stack: ExitStack, worker: Worker, spec: TorchSpec, compiled: bool) -> str:
    """Enter PyTorch's variants; return its versions, or nothing if a row says why there are none."""
    kind = worker.facts.environment.kind
    contest.says("checking PyTorch's results on every element" + (", compiling some first" if compiled else ""))
    try:
        process = TorchProcess(spec)
    except TunerError as error:
        contest.add(Row(name=f"{spec.call.library} (PyTorch)", precision="fp32", failure=str(error)))
        return ""
    stack.callback(process.close)
    for variant in variants(spec.call, kind, compiled):
        _enter_variant(contest, process, variant)
    return str(process.facts)


def _torch_spec(worker: Worker, handed: ReferenceFacts, folder: str, call: LibraryCall) -> TorchSpec:
    machine = worker.facts.environment
    on_gpu = machine.kind == "cuda"
    return TorchSpec(
        device=machine.device if on_gpu else "cpu",
        folder=folder,
        flush_bytes=handed.flush_bytes,
        call=call,
        inputs=tuple(each.name for each in worker.spec.problem.inputs),
        model=machine.model if on_gpu else "",
    )


def _enter_variant(contest: _Contest, process: TorchProcess, variant: Variant) -> None:
    layout = "its own" if variant.compiled else variant.layout
    row = Row(name=variant.name, precision=variant.precision, layout=layout)
    try:
        error = process.enter(variant)
    except TunerError as failed:
        contest.add(replace(row, failure=str(failed)))
        return
    contest.add(replace(row, max_error=error), lambda: process.sample(variant))


def _finished(card: _Card, ours: Contender | None, handed: ReferenceFacts) -> Row:
    row, entrant = card.row, card.entrant
    row = replace(row, tolerance=handed.tolerances[row.precision])
    if row.max_error is not None and handed.output_range > 0:
        row = replace(row, relative_error=row.max_error / handed.output_range)
    if entrant is None:
        return row
    measurement = Measurement(samples=tuple(entrant.samples)) if entrant.samples and not entrant.failure else None
    against = ratio(ours, entrant) if ours and ours is not entrant and measurement else None
    return replace(row, measurement=measurement, ratio=against, failure=entrant.failure)
