"""``tune compare``: our best against cuDNN, the baselines and the roofline bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import naming, options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import print_json

if TYPE_CHECKING:
    from tuner.compare import CompareOptions


@click.command("compare", short_help="The winner against cuDNN, the baselines and the roofline.")
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
def command(**given: Any) -> None:
    """Compare a problem's best configuration with cuDNN, the naive and the 2017 final kernel, and the roofline.

    STUDY is a study as `tune show` names it, or a problem: conv2, fa18/conv2, C=8,H=32,W=48,M=32,K=3. Another kind
    is named with it: gemm:M=512,N=512,K=512, beside cuBLAS.

    Everything is timed in one run, interleaved, each launch from a cold cache, and every output is checked. cuDNN runs
    through PyTorch where it is installed, on inputs that already lie on the device in its format and precision.
    """
    from tuner.cli.support.comparison import comparison_json, print_comparison, write_plot
    from tuner.compare import compare

    plot = given["plot"]
    if plot is not None:
        from tuner.report.pictures import check_picture

        check_picture(plot)
    asked = _asked(given)
    done = compare(asked, lambda line: echo(line, err=True))
    if given["as_json"]:
        print_json(comparison_json(done))
    else:
        print_comparison(done)
    if plot is not None:
        write_plot(plot, done)


def _asked(given: dict[str, Any]) -> CompareOptions:
    from tuner.problems.lookup import is_problem

    return _of_problem(given) if is_problem(given["study"]) else _of_study(given)


def _of_problem(given: dict[str, Any]) -> CompareOptions:
    """Compare the newest winner of a problem, at its own batch and precision unless they are given."""
    from tuner.compare import CompareOptions
    from tuner.compare.contenders import StudyFilter, study_of_problem
    from tuner.problems.lookup import find_problem, says_rows
    from tuner.tuning.request import asked_device, asked_precision, asked_problem

    device, precision = asked_device(given["device"]), asked_precision(given["precision"])
    named = find_problem(given["study"], given["batch"])
    wanted = StudyFilter(
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
