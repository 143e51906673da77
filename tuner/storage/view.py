"""A snapshot of a study, from which commands show it, name its winner and export it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from tuner.bench.roofline import Yardstick
from tuner.errors import NoWinner, UsageError
from tuner.kernels.configuration import Configuration
from tuner.problems.problem import Problem, is_naive
from tuner.results import OK, Environment, Result, StudyKey
from tuner.storage.commands import command, storage_option
from tuner.storage.dashboard_note import resume_command
from tuner.storage.location import Location
from tuner.storage.mapping import Choices, environment_of, result_of
from tuner.storage.schema import EnvironmentRow
from tuner.storage.store import Store
from tuner.storage.study import StudyHandle
from tuner.storage.winner import Champion, select_with_winner


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyView:
    """One study, read once; stays valid when the store is closed.

    Attributes:
        short: A brief name that commands take for it.
        chosen: Which of several studies it is, in a line for people; empty where its name means no other.
        environment: Where its newest results were measured.
        choices: Every parameter's choices, ``template`` first.
        results: By the trial's number, ascending; another program's trials leave gaps.
        measured_in: The environment in which each was measured.
        winner: None until finals have chosen one.
    """

    name: str
    short: str
    chosen: str
    key: StudyKey
    problem: Problem
    environment: Environment
    choices: Choices
    location: Location
    results: Mapping[int, Result]
    measured_in: Mapping[int, Environment]
    winner: Champion | None

    @property
    def counts(self) -> dict[str, int]:
        """How many results there are of each outcome, ``ok`` first, then the most frequent."""
        counted = Counter(result.outcome for result in self.results.values())
        return dict(sorted(counted.items(), key=lambda each: (each[0] != OK, -each[1])))

    @property
    def yardstick(self) -> Yardstick:
        """What this study's times are compared with."""
        naive = next((each.seconds for each in self.results.values() if is_naive(each.baseline) and each.ok), None)
        return Yardstick(problem=self.problem, environment=self.environment, precision=self.key.precision, naive=naive)

    def verified(self) -> Champion:
        """Return the winner.

        Raises:
            NoWinner: No finals have chosen one yet.
        """
        if self.winner is None:
            raise NoWinner(f"study '{self.name}': {self.why_no_winner}")
        return self.winner

    @property
    def why_no_winner(self) -> str:
        """The command that finds a winner, or why there cannot be one."""
        tried = len(self.results)
        if tried and not self.counts.get(OK):
            failed = "its one trial" if tried == 1 else f"all {tried:,} trials"
            return f"no verified winner: {failed} failed; {self.command('show', '--failures')} says why"
        return f"no verified winner yet; {self.resume} continues and finds it"

    @property
    def resume(self) -> str:
        """The command line that continues the study, with its store."""
        return f"{resume_command(self.key, self.environment.device)}{storage_option(self.location)}"

    def command(self, name: str, *words: str) -> str:
        """Return a command line about this study: ``tune NAME STUDY WORDS``, ready to be copied."""
        return command(name, self.short, *words, where=self.location)

    def trial(self, number: int) -> Result:
        """Return a trial's result.

        Raises:
            UsageError: There is none of this number.
        """
        if number in self.results:
            return self.results[number]
        numbers = self.results.keys()
        there = f"it has {len(numbers):,}, from {min(numbers)} to {max(numbers)}" if numbers else "it has none yet"
        raise UsageError(f"study '{self.name}': no trial {number}; {there}; {self.command('show')} lists the best")

    def number_of(self, configuration: Configuration) -> int | None:
        """Return the number of a configuration's trial, or None when it has none."""
        return next((number for number, each in self.results.items() if each.configuration == configuration), None)


def read_study(where: str | Path, study: str) -> StudyView:
    """Return the study that a name means, as it is now.

    Raises:
        UsageError: No such store or study, or several.
        StorageError: The store cannot be read.
    """
    with Store.open(where, create=False) as store:
        return view_of(store.find_study(study))


def view_of(handle: StudyHandle) -> StudyView:
    """Return an open study as it is now: results and winner in one statement, so that they belong together."""
    with handle.database.reading() as session:
        environments = {row.id: environment_of(row) for row in session.scalars(select(EnvironmentRow))}
        rows = session.execute(select_with_winner(handle.id)).all()
    results = {row.number: result_of(row, samples, failure) for row, samples, failure, _ in rows}
    won = next((row.number for row, _, _, is_winner in rows if is_winner), None)
    return StudyView(
        name=handle.name,
        short=handle.short,
        chosen=handle.chosen,
        key=handle.key,
        problem=handle.problem,
        environment=handle.environment,
        choices=handle.choices,
        location=handle.database.location,
        results=results,
        measured_in={row.number: environments[row.environment_id] for row, *_ in rows},
        winner=None if won is None else Champion(trial=won, result=results[won]),
    )
