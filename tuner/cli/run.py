"""``tune run``: the main job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import naming, options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import echo_wrapped, print_json
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.storage import Store
    from tuner.tuning import Observer, Report, RunOptions, Unstored

INTERRUPTED = 130


@click.command("run", short_help="Tune a problem.")
@naming.problem
@options.device
@click.option("--batch", type=int, metavar="B", help="Images a launch; 10,000 on a GPU, what takes 50 ms on a CPU.")
@options.templates
@options.precision
@options.only
@click.option("--no-heuristics", is_flag=True, help="Search what the templates' heuristics leave out, too.")
@click.option("--trials", type=int, metavar="N", help="Stop after N new trials.")
@click.option(
    "--time",
    "seconds",
    type=options.duration,
    metavar="60s",
    help="End the whole command within this time.",
)
@click.option("--stop-at", type=float, metavar="SHARE", help="Stop when the best reaches this share of its roofline.")
@click.option("--stop", metavar="auto|off", help="Stop at the roofline, or when more trials gain too little.")
@click.option("--sampler", default=None, metavar="NAME", help="surrogate, tpe, random, grid or anneal.")
@click.option(
    "--warm-start",
    default="auto",
    show_default=True,
    metavar="auto|off|STUDY",
    help="Start from this problem's results elsewhere, or a sibling's.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed proposes the same configurations.")
@options.storage
@options.data
@click.option("--jobs", type=int, metavar="N", help="Compiling processes; all cores by default.")
@click.option("--trial-timeout", type=options.duration, metavar="30s", help="Limit of one trial.")
@click.option("--compile-timeout", type=options.duration, metavar="60s", help="Limit of one compilation.")
@click.option("--warm-l2", is_flag=True, help="Do not flush the cache between launches.")
@options.explain
@options.quiet
@options.as_json
def command(**given: Any) -> int:
    """Tune a problem: search, check, time, and name the fastest correct configuration.

    PROBLEM is conv2, fa18/conv2 or any that `tune layers` lists, sizes: C=8,H=32,W=48,M=32,K=3, or a study to continue.

    Without --trials and --time it stops by itself (--stop auto), after a minute and a half at most. Run it
    again to continue; once it has said that the search is over, --stop off or --trials N continues. Nothing is measured
    twice. Ctrl-C stops early and keeps everything.
    """
    started = time.monotonic()  # before the imports, which take a second or more
    from tuner.cli.support.ending import ending_before_any
    from tuner.cli.support.explanation import explain_study, explanation_part, print_explanation
    from tuner.cli.support.live import Headed, Silent, observer
    from tuner.cli.support.report import print_ending, print_report
    from tuner.cli.support.report_json import nothing_json, report_json
    from tuner.tuning import interrupted_early

    asked = _run_options(given)
    fault: Unstored | None = None
    report: Report | None
    try:
        with Silent() if given["quiet"] else observer(to_stderr=given["as_json"]) as watcher:
            headed = Headed(_first_line(asked, given["device"]), watcher)
            report, fault = _tuned(asked, headed, started)
    except KeyboardInterrupt:
        report = interrupted_early(asked)
    if report is None:
        if given["as_json"]:
            print_json(nothing_json(asked))
        for line in () if given["as_json"] else ending_before_any():
            echo_wrapped(line)
        return INTERRUPTED
    explained = explain_study(report.progress.study, asked.storage) if given["explain"] and fault is None else None
    if given["as_json"]:
        print_json(report_json(report) | explanation_part(explained))
    elif given["quiet"]:
        echo(str(report))
    else:
        print_report(report, asked)
        if explained:
            echo()
            print_explanation(explained)
        print_ending(report)
    if fault is not None:
        raise fault
    return INTERRUPTED if report.reason == "interrupted" else 0 if report.best else 1


def _tuned(asked: RunOptions, watcher: Observer, started: float) -> tuple[Report, Unstored | None]:
    """Run, and return what was found also where the store took no more of it, with the error that says so."""
    from tuner.tuning import Unstored, tune

    try:
        return tune(asked, watcher, started), None
    except Unstored as fault:
        return fault.report, fault


def _of_study(given: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked for where a study is named, not a problem: that study, but for what is given beside it."""
    from tuner.problems.lookup import is_problem
    from tuner.storage import Store
    from tuner.storage.location import find_location

    path = find_location(given["storage"]).path
    if is_problem(given["problem"]) or (path and not path.exists() and "@" not in given["problem"]):
        return given
    try:
        with Store.open(given["storage"], create=False) as store:
            try:
                handle = store.find_study(given["problem"])
            except UsageError as error:
                raise _no_own_study(given["problem"], store, error) from None
    except UsageError:
        if "@" in given["problem"]:
            raise
        return given  # then it is a problem that there is not
    usual = {
        "device": handle.environment.device,
        "precision": handle.key.precision,
        "templates": tuple(path or name for name, path in handle.key.sources),
        "no_heuristics": not handle.key.heuristics,
    }
    source = click.get_current_context().get_parameter_source
    told = {name: value for name, value in usual.items() if source(name) is click.core.ParameterSource.DEFAULT}
    return {**given, **told, "problem": handle.problem}


def _no_own_study(text: str, store: Store, error: UsageError) -> UsageError:
    """Say which study of a user's own template is near to a name such as ``mine@conv2`` that no study has."""
    from tuner.problems.lookup import short_name
    from tuner.suggestions import alternatives

    named = dict.fromkeys(each.name.split(" ")[0] for each in store.studies() if "@" in each.name.split(" ")[0])
    if "@" not in text or not named:
        return error
    short = [f"{own}@{short_name(of)}" for own, _, of in (name.partition("@") for name in named)]
    return UsageError(f"study '{text}' is not in {store}; {alternatives(text, short, list(named))}")


def _run_options(given: dict[str, Any]) -> RunOptions:
    from tuner.bench.protocol import Protocol
    from tuner.kernels.subspace import Restriction
    from tuner.storage.mapping import choices_of_templates
    from tuner.tuning.options import AUTO, DEFAULT_SECONDS, OFF, RunOptions
    from tuner.tuning.request import asked_device, asked_precision, asked_problem, asked_sampler

    given = _of_study(given)
    sampler = asked_sampler(given["sampler"])
    device = asked_device(given["device"])
    problem = asked_problem(given["problem"], given["batch"], device)
    templates = options.chosen_templates(given["templates"], problem.kind)
    for template in templates:
        if template.problem != problem.kind:
            raise UsageError(
                f"template {template.name} computes a {template.problem}, {problem.name} is a {problem.kind}; give a "
                f"--template for it, or none"
            )
    unbounded = given["trials"] is None and given["seconds"] is None
    extra = {name: given[name] for name in ("trial_timeout", "compile_timeout", "data", "trials", "stop_at")}
    if given["jobs"] is not None:
        extra["jobs"] = given["jobs"]
    return RunOptions(
        problem=problem,
        device=device,
        templates=templates,
        storage=given["storage"],
        sampler=sampler,
        precision=asked_precision(given["precision"]),
        seed=given["seed"],
        only=Restriction.parse(given["only"], choices_of_templates(templates)),
        heuristics=not given["no_heuristics"],
        seconds=DEFAULT_SECONDS if unbounded else given["seconds"],
        stop=given["stop"] or (AUTO if unbounded else OFF),
        warm_start=given["warm_start"],
        protocol=Protocol(warm_l2=given["warm_l2"]),
        **extra,
    )


def _first_line(asked: RunOptions, device: str) -> str:
    from tuner.devices.cuda_driver import NO_GPU, why_none

    own = "+".join(template.name for template in asked.templates if template.home)
    problem, why = asked.problem, why_none() if device == "auto" and asked.device == "cpu" else ""
    name = f"{own}@{problem.name}" if own else problem.name
    if why not in ("", NO_GPU):
        return f"{why}\n{name} on {asked.device}: {problem.describe()}"
    return f"{name} on {asked.device}{f' ({why})' if why else ''}: {problem.describe()}"
