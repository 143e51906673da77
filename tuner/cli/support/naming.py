"""How a study or a problem is named: as an argument, or by the older options ``--study`` and ``--layer``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support.completing import problems_and_studies
from tuner.cli.support.folding import echo
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.storage import Store, StudyHandle, StudyView

Function = Callable[..., Any]


def study(*, required: bool = True, metavar: str = "STUDY") -> Callable[[Function], Function]:
    """Add the argument ``study`` to a command; unquoted words are joined.

    Raises:
        UsageError: From the command: none is named though one is ``required``, or two are.
    """

    def decorate(command: Function) -> Function:
        @wraps(command)
        def told(words: tuple[str, ...], by_study: str | None, by_layer: str | None, **given: Any) -> Any:
            return command(study=_one(_command(), words, (by_study, by_layer), required), **given)

        by_layer = click.option("--layer", "by_layer", metavar="NAME", help="The newest study of this problem.")
        by_study = click.option("--study", "by_study", metavar="STUDY", help="The study, as an option.")
        argument = click.argument("words", nargs=-1, metavar=metavar, shell_complete=problems_and_studies)
        return argument(by_study(by_layer(told)))

    return decorate


def study_and_trial(command: Function) -> Function:
    """Add the arguments ``study`` and ``trial``, a trial's number, to a command; the study may be an option instead.

    Raises:
        UsageError: From the command: either is missing, or the last word is not a number.
    """

    of_study = study(metavar="STUDY TRIAL")(command)

    @wraps(of_study)
    def told(words: tuple[str, ...], **given: Any) -> Any:
        *named, trial = words or ("",)
        if not trial.isdecimal():
            if len(words) == 1 and not (given["by_study"] or given["by_layer"]):
                raise UsageError(
                    f"{_command()}: no trial of '{trial}' named; give its number, such as "
                    f"tune {_command()} {trial} 17; tune show {trial} has them"
                )
            what = f"trial '{trial}' is not a number" if trial else "no trial named"
            raise UsageError(f"{_command()}: {what}; give a study and a trial, such as tune {_command()} conv2 17")
        return of_study(words=tuple(named), trial=int(trial), **given)

    return told


def problem(command: Function) -> Function:
    """Add the argument ``problem`` to a command.

    Raises:
        UsageError: From the command: none is named, or two are.
    """

    @wraps(command)
    def told(words: tuple[str, ...], by_layer: str | None, kind: str | None, sizes: str | None, **given: Any) -> Any:
        if sizes is not None and kind is None:
            raise UsageError(f"{_command()}: --sizes {sizes} of what? Give --problem too, such as --problem gemm")
        by_kind = None if kind is None else f"{kind}:{sizes or ''}"
        return command(problem=_one(_command(), words, (by_layer, by_kind), required=True, what="problem"), **given)

    option = click.option("--layer", "by_layer", metavar="NAME|SIZES", help="A convolution, as an option.")
    of_kind = click.option("--problem", "kind", metavar="KIND", help="Another kind than a layer: gemm; with --sizes.")
    its_sizes = click.option("--sizes", metavar="SIZES", help="Its sizes: M=512,N=512,K=512.")
    argument = click.argument("words", nargs=-1, metavar="PROBLEM", shell_complete=problems_and_studies)
    return argument(option(of_kind(its_sizes(told))))


def read(storage: str, text: str) -> StudyView:
    """Return a snapshot of the named study; if the name is ambiguous, say which one.

    Raises:
        UsageError: None, or several.
    """
    from tuner.storage import read_study

    view = read_study(storage, text)
    say_which(view.chosen)
    return view


def found(store: Store, text: str) -> StudyHandle:
    """Return the named study; if the name is ambiguous, say which one.

    Raises:
        UsageError: None, or several.
    """
    handle = store.find_study(text)
    say_which(handle.chosen)
    return handle


def say_which(chosen: str) -> None:
    if chosen:
        echo(chosen, err=True)


def _command() -> str:
    return click.get_current_context().info_name or ""


def _one(
    command: str, words: tuple[str, ...], options: tuple[str | None, ...], required: bool, what: str = "study"
) -> str | None:
    named = dict.fromkeys(each.strip() for each in (" ".join(words), *options) if each and each.strip())
    if len(named) > 1:
        raise UsageError(f"{command}: {' and '.join(map(repr, named))} name a {what} each; give one")
    if not named and required:
        there = (
            "tune layers lists them, --layer C=8,H=32,M=32,K=3 makes one" if what == "problem" else "tune list has them"
        )
        raise UsageError(f"{command}: no {what} named; give one, such as tune {command} conv2; {there}")
    return next(iter(named), None)
