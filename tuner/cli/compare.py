"""``tune compare``: our best against cuDNN, the baselines and the roofline bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import naming, options
from tuner.cli.folding import echo, width
from tuner.errors import StorageError

if TYPE_CHECKING:
    from tuner.compare import CompareOptions, Comparison, Row
    from tuner.report.charts import Bar

EXPLAINED = (
    "error: the largest of all elements, over the output's range; within: of its precision's tolerance. {theirs} "
    "inputs already lie on the device in its layout and precision; ours are FP32, {layout}, the output too."
)


@click.command(short_help="The winner against cuDNN, the baselines and the roofline.")
@naming.study()
@options.device
@click.option("--batch", type=int, metavar="B", help="Images a launch; as in tune run, or the study's.")
@options.precision
@click.option("--compile", "compiled", is_flag=True, help="Also torch.compile max-autotune; takes minutes.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Write the bars as .svg or .png.")
@options.templates
@options.storage
@options.data
@options.as_json
def compare(**given: Any) -> None:
    """Compare a problem's best configuration with cuDNN, the naive and the 2017 final kernel, and the roofline.

    STUDY is a study as `tune show` names it, or a problem: conv2, fa18/conv2, C=8,H=32,W=48,M=32,K=3. Another kind
    is named with it: gemm:M=512,N=512,K=512, beside cuBLAS.

    All in one run, interleaved, each launch from a cold cache, every output checked. cuDNN runs through PyTorch where
    it is installed, on inputs that already lie on the device in its format and precision.
    """
    from tuner.cli.compare_json import comparison_json
    from tuner.cli.text import print_json
    from tuner.compare import compare as run_comparison

    plot = given["plot"]
    if plot is not None:
        from tuner.report.pictures import check_picture

        check_picture(plot)
    asked = _asked(given)
    done = run_comparison(asked, lambda line: echo(line, err=True))
    if given["as_json"]:
        print_json(comparison_json(done))
    else:
        _print(done)
    if plot is not None:
        _write_plot(plot, done)


def _asked(given: dict[str, Any]) -> CompareOptions:
    from tuner.problems.lookup import is_problem

    return _of_problem(given) if is_problem(given["study"]) else _of_study(given)


def _of_problem(given: dict[str, Any]) -> CompareOptions:
    """Compare the newest winner of a problem, at its own batch and precision but for those that are given."""
    from tuner.compare import CompareOptions
    from tuner.compare.contenders import Wanted, study_of_problem
    from tuner.problems.lookup import find_problem, says_rows
    from tuner.tuning.request import asked_device, asked_precision, asked_problem

    device, precision = asked_device(given["device"]), asked_precision(given["precision"])
    named = find_problem(given["study"], given["batch"])
    wanted = Wanted(
        problem=named,
        device=device,
        has_batch=given["batch"] is not None or says_rows(given["study"]),
        precision=precision if _is_given("precision") else None,
    )
    handle = study_of_problem(given["study"], given["storage"], wanted)
    if handle is None:
        problem = asked_problem(given["study"], given["batch"], device)
        return CompareOptions(problem=problem, device=device, precision=precision, **_rest(given))
    naming.say_which(handle.chosen)
    precision = asked_precision(handle.key.precision)
    return CompareOptions(problem=handle.problem, device=device, precision=precision, **_rest(given))


def _of_study(given: dict[str, Any]) -> CompareOptions:
    """Compare a study's winner, or that of its problem at another batch or precision, where it was measured."""
    from tuner.compare import CompareOptions
    from tuner.compare.contenders import study_named
    from tuner.devices import check_name, resolve
    from tuner.tuning.request import asked_precision

    device = check_name(given["device"])
    handle = study_named(given["study"], given["storage"])
    naming.say_which(handle.chosen)
    batch, precision = given["batch"], given["precision"]
    if not _is_given("precision"):
        precision = handle.key.precision
    problem = handle.problem if batch is None else handle.problem.with_rows(batch)
    is_its_own = (problem.rows, precision) == (handle.problem.rows, handle.key.precision)
    return CompareOptions(
        problem=problem,
        device=handle.environment.device if device == "auto" else resolve(device),
        precision=asked_precision(precision),
        study=handle.name if is_its_own else None,
        **_rest(given),
    )


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is not click.core.ParameterSource.DEFAULT


def _rest(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "templates": options.chosen_templates(given["templates"]),
        **{name: given[name] for name in ("storage", "compiled", "data")},
    }


def _print(done: Comparison) -> None:
    from tuner.cli.text import echo_wrapped, table
    from tuner.report.charts import bar_lines

    machine = done.environment
    echo(f"{done.problem.name}: {done.problem.describe()}")
    echo_wrapped(f"{machine.model}, driver {machine.driver}; {done.pytorch or 'without PyTorch'}")
    echo()
    columns = ("contender", "ms", "+-", "vs ours", "error", "within")
    table("one run, interleaved, cold cache", columns, [_cells(row) for row in done.rows], left=("contender",))
    echo()
    call = done.problem.LIBRARY
    if call:
        theirs = f"{call.library}'s" if machine.kind == "cuda" else "PyTorch's"
        echo_wrapped(EXPLAINED.format(theirs=theirs, layout=call.layouts[0]))
    for row in done.rows:
        if row.failure:
            echo_wrapped(f"{row.name}: {row.failure}")
    for note in done.notes:
        echo_wrapped(note)
    echo()
    for line in bar_lines(_bars(done), width()):
        echo(line)
    echo(f"\n{done.study}, trial {done.trial}:")
    echo_wrapped(str(done.ours.configuration))


def _cells(row: Row) -> tuple[str, ...]:
    from tuner.cli.text import milliseconds

    timed, error = row.measurement, row.relative_error
    within = {None: "-", True: "yes", False: "no"}[row.holds]
    return (
        row.name,
        milliseconds(timed.median) if timed else "failed",
        f"{timed.spread:.1%}" if timed else "",
        f"{row.ratio.median:.2f}x" if row.ratio else "",
        "-" if error is None else f"{error:.1e}",
        within,
    )


def _bars(done: Comparison) -> list[Bar]:
    from tuner.cli.text import milliseconds
    from tuner.report.charts import Bar

    bars = [
        Bar(label=f"roofline ({each.wall})", value=each.seconds, text=f"{milliseconds(each.seconds)} ms", kind="floor")
        for each in dict.fromkeys((done.roof, done.own_roof))
        if each
    ]
    for row in done.rows:
        if row.measurement:
            text = f"{milliseconds(row.measurement.median)} ms"
            kind = "ours" if row is done.ours else "other"
            measured = row.measurement
            bars.append(Bar(label=row.name, value=measured.median, text=text, kind=kind, interval=measured.interval))
    return bars


def _write_plot(path: Path, done: Comparison) -> None:
    from tuner.report.charts import bar_figure
    from tuner.report.pictures import write_picture

    title = f"{done.problem.name}, {done.problem.ROWS}={done.problem.rows:,}: milliseconds, median and 95% interval"
    subtitle = f"{done.environment.model}, {done.pytorch or 'without PyTorch'}"
    try:
        write_picture(path, bar_figure(title, subtitle, _bars(done)))
    except OSError as error:
        raise StorageError(f"--plot {path}: {error.strerror}; the figures above are all there is") from None
    echo(f"wrote {path}", err=True)


COMMANDS = (compare,)
