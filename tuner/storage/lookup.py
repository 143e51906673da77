"""Which study a user means, and how to name one briefly."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tuner.errors import UsageError
from tuner.problems.lookup import find_problem, is_named, says_rows
from tuner.problems.lookup import short_name as short_problem
from tuner.storage.mapping import shape_of
from tuner.storage.schema import StudyRow
from tuner.suggestions import alternatives, listed

_LEAST_DIGEST = 4  # letters of a study's digest that stand for all of it
_AS_MADE = re.compile(r" [0-9a-f]{6}$")  # how a study's name ends, unless a person has renamed it


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """The study that a name means, and in a line for people which of several that was; empty for the only one."""

    row: StudyRow
    why: str = ""


def pick_study(
    text: str,
    rows: Sequence[StudyRow],
    where: str,
    winners: Callable[[], Collection[int]] = tuple,
    *,
    sole: bool = False,
) -> Picked:
    """Pick by exact name, Optuna's id, problem, or some words or the start of one name, in either case.

    A problem is named as in ``tune run``, or as a study of it begins: ``conv2``, ``C=8,H=9,M=3,K=3``, ``C8H9W9M3K3``,
    ``mine@conv2`` for a study of a user's own template, ``mine`` while that has one problem. Of a problem's
    studies, and of those that differ in what was edited meanwhile, the newest with a verified winner is meant, else the
    newest.

    Args:
        rows: In order of creation.
        winners: Gives the ids of the studies that have a verified winner; asked where there is a choice.
        sole: There may be no choice, as where the study is to be deleted.

    Raises:
        UsageError: None or several; names a near one, or what there is.
    """
    if not rows:
        raise UsageError(f"study '{text}': storage {where} has no studies; start one with `tune run`")
    for found in (
        [row for row in rows if text in (row.name, str(row.optuna_id))],
        [row for row in rows if text.casefold() == row.name.casefold()],
    ):
        if found:
            return Picked(row=found[-1])
    of_problem = [row for row in rows if _is_of(row, text)]
    meant = of_problem or [row for row in rows if _is_meant(text, row)]
    if len(meant) == 1:
        return Picked(row=meant[0])
    if meant and not sole and (of_problem or _are_kin(meant, text)):
        return _newest(text, meant, winners())
    if meant:
        raise UsageError(f"study '{text}' could be {listed(_names(meant))}; give more of its name")
    problems = dict.fromkeys(name for row in rows for name in (row.problem, row.problem.rpartition("/")[2]))
    raise UsageError(f"study '{text}' is not in {where}; {alternatives(text, _names(rows), list(problems))}")


def _newest(text: str, meant: Sequence[StudyRow], winners: Collection[int]) -> Picked:
    won = [row for row in meant if row.id in winners]
    row = (won or meant)[-1]
    which = "that has a verified winner" if won else "and none has a verified winner"
    return Picked(row=row, why=f"'{text}' is taken for '{row.name}': the newest of {len(meant)} {which}")


def _are_kin(rows: Sequence[StudyRow], text: str) -> bool:
    """Whether studies are of one problem and of the user's template that ``text`` names, or differ by digest alone."""
    own = text.casefold().rstrip("@")
    if all(row.name.casefold().startswith(f"{own}@") for row in rows) and len({row.problem for row in rows}) == 1:
        return True
    return len({_AS_MADE.sub("", row.name) for row in rows}) == 1


def short_name(name: str, problems: Iterable[tuple[str, str]]) -> str:
    """Return the briefest text that :func:`pick_study` takes for one study.

    Args:
        problems: Name and problem of every study of the store, this one's included.
    """
    everywhere = list(problems)
    problem = dict(everywhere)[name]
    if [each for _, each in everywhere].count(problem) == 1 and name.startswith(problem):
        return short_problem(problem)
    if not _AS_MADE.search(name):
        return name
    words = name.split(" ")
    for word in (words[0], words[-1]):
        if word != problem and [other for other, _ in everywhere if word in other.split(" ")] == [name]:
            return word
    return name


def _is_meant(text: str, row: StudyRow) -> bool:
    """Whether a name begins with a text, or has all its words; of the digest the first letters are enough."""
    name, words = row.name.casefold(), row.name.casefold().split()
    given = text.casefold().split()
    return bool(given) and (name.startswith(text.casefold()) or all(_is_word(each, words, row) for each in given))


def _is_word(given: str, words: Sequence[str], row: StudyRow) -> bool:
    problem = row.problem.casefold().rpartition("/")[2]
    return (
        given in (*words, problem)
        or _is_of(row, given)
        or (len(given) >= _LEAST_DIGEST and row.digest.startswith(given))
    )


def _is_of(row: StudyRow, text: str) -> bool:
    """Whether a text names the row's problem, its batch if it says one, and a user's own template before an @."""
    if "@" in text:
        own, _, text = text.partition("@")
        if not row.name.startswith(f"{own}@"):
            return False
    if "=" not in text:
        return is_named(row.problem, text)
    problem = find_problem(text)
    return row.problem == problem.name and (not says_rows(text) or shape_of(row)[0] == problem.rows)


def _names(rows: Sequence[StudyRow]) -> list[str]:
    """Return the studies' names, the newest first."""
    return [row.name for row in rows[::-1]]
