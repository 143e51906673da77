"""One study in the store: claim configurations, record their results, read them back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.orm import Session

from tuner.kernels.configuration import Configuration
from tuner.problems.problem import Problem
from tuner.results import Environment, Result, StudyKey
from tuner.storage import dashboard_note
from tuner.storage.claims import LAUNCH, Claim, chunks, claim_of, finished, held, select_claims, take
from tuner.storage.commands import command
from tuner.storage.database import Database
from tuner.storage.ended import Ended, read_ended, write_ended
from tuner.storage.lookup import short_name
from tuner.storage.mapping import (
    Choices,
    check_result,
    configuration_of,
    environment_of,
    keys_of,
    problem_of_key,
    result_of,
    select_results,
)
from tuner.storage.records import Recorder, counts_of
from tuner.storage.schema import ClaimRow, EnvironmentRow, ResultRow, StudyRow, table
from tuner.storage.trials import TrialWriter
from tuner.storage.winner import Champion, champion_of, fastest_of, tell_apart, touches_winner

_MARK = update(table(ClaimRow)).where(
    ClaimRow.study_id == bindparam("study"), ClaimRow.key == bindparam("configuration_key")
)

_LOCK = select(StudyRow.id).where(StudyRow.id == bindparam("study")).with_for_update()  # SQLite has its write lock


@dataclass(frozen=True)
class StudyHandle:
    """A study that is open for work. Safe to use from several threads; every method is one transaction.

    Attributes:
        optuna_id: Optuna's id of the study, in the dashboard's address.
        environment: Where new results are measured (for a study found by name, the latest one).
        choices: Every parameter's choices as Optuna sees them, ``template`` first.
        chosen: Which of several studies this is, in a line for people; empty where its name means no other.

    Raises:
        StorageError: From any method: the disk is full, the store is not writable, locked or damaged.
    """

    database: Database
    id: int
    optuna_id: int
    environment_id: int
    name: str
    key: StudyKey
    environment: Environment
    choices: Choices
    chosen: str = field(default="", compare=False)

    @property
    def problem(self) -> Problem:
        return problem_of_key(self.key)

    @cached_property
    def recorder(self) -> Recorder:
        trials = TrialWriter(self.optuna_id, self.choices, self.problem)
        return Recorder(self.id, self.environment_id, self.environment, trials)

    def claim(
        self, configurations: Sequence[Configuration], *, stage: str = LAUNCH, suspects_ok: bool = False
    ) -> list[Configuration]:
        """Claim those of ``configurations`` that are unclaimed and have no result yet; return those.

        Args:
            stage: ``COMPILE`` when claiming ahead of the device; then call ``mark(..., LAUNCH)`` before each launch.
            suspects_ok: Also take configurations that were on the device when their process died.
        """
        wanted = {configuration.key: configuration for configuration in configurations}
        with self.database.writing() as connection:
            taken = held(connection, self.id, wanted)
            if not all(claim.alive for claim in taken):
                self.recorder.close_stale(connection, list(wanted))
                taken = held(connection, self.id, wanted)
            busy = {claim.configuration.key for claim in taken}
            free = wanted.keys() - busy - finished(connection, self.id, wanted, suspects_ok)
            granted = [configuration for key, configuration in wanted.items() if key in free]
            take(connection, self.id, granted, stage)
        return granted

    def mark(self, configuration: Configuration, stage: str) -> None:
        """Record the stage of a claimed configuration; ``LAUNCH`` makes it a suspect if this process dies now."""
        values = {"study": self.id, "configuration_key": configuration.key, "stage": stage, "claimed": time.time()}
        with self.database.writing() as connection:
            connection.execute(_MARK, values)

    def release(self, configurations: Iterable[Configuration]) -> None:
        """Release claims without a result (the run was stopped)."""
        with self.database.writing() as connection:
            for chunk in chunks([configuration.key for configuration in configurations]):
                connection.execute(delete(ClaimRow).where(ClaimRow.study_id == self.id, ClaimRow.key.in_(chunk)))

    def claims(self) -> list[Claim]:
        """Return what is in flight, by this and other processes."""
        with self.database.reading() as session:
            rows = session.execute(select_claims().where(ClaimRow.study_id == self.id))
            return [claim_of(row) for row in rows]

    def suspects(self) -> list[Configuration]:
        """Return configurations that were on the device when their process died and were not tried again since."""
        with self.database.reading() as session:
            found = session.execute(
                select(ResultRow.template, ResultRow.configuration)
                .where(ResultRow.study_id == self.id, ResultRow.suspect)
                .order_by(ResultRow.interrupted, ResultRow.number)
            )
            return [configuration_of(template, text) for template, text in found]

    def record(self, result: Result) -> int:
        """Store one result with its trial and drop its claim; return the trial's number."""
        return self.record_all((result,))[0]

    def record_all(self, results: Sequence[Result]) -> list[int]:
        """Store results in one transaction. A configuration that has one already keeps its trial, with the new result.

        Raises:
            UsageError: A result that must not be stored (unknown outcome, ``ok`` without time, outside the space).
            StorageError: The disk is full, the store is not writable or damaged; nothing of ``results`` is stored.
        """
        for result in results:
            check_result(result)
        with self.database.writing() as connection:
            connection.scalar(_LOCK, {"study": self.id})
            numbers = [self.recorder.store(connection, result) for result in results]
            if touches_winner(connection, self.id, results):
                tell_apart(connection, self.id, self.optuna_id)
            return numbers

    def results(self) -> list[Result]:
        """Return every result, in the order of its trial's number."""
        return list(self.numbered().values())

    def numbered(self) -> dict[int, Result]:
        """Return every result by its trial's number, ascending; another program's trials leave gaps."""
        with self.database.reading() as session:
            found = session.execute(select_results().where(ResultRow.study_id == self.id).order_by(ResultRow.number))
            return {row.number: result_of(row, samples, failure) for row, samples, failure in found}

    def set_winner(self, configuration: Configuration) -> None:
        """Record the winner of the finals in the study, its note and Optuna's tables in one transaction."""
        with self.database.writing() as connection, Session(connection) as session:
            ours = update(StudyRow).where(StudyRow.id == self.id)
            connection.execute(ours.values(winner=configuration.key, settled=time.time()))
            tell_apart(connection, self.id, self.optuna_id)
            dashboard_note.rewrite_note(connection, self.optuna_id, self._usual_note(session))

    def champion(self) -> Champion | None:
        """Return the winner, as every command names it, with its trial's number; None until finals have chosen one."""
        with self.database.reading() as session:
            return champion_of(session, self.id)

    def best(self) -> Result | None:
        """Return the winner's result; None until finals have chosen one."""
        champion = self.champion()
        return champion.result if champion else None

    def counts(self) -> dict[str, int]:
        """Return how many results there are of each outcome, ``ok`` first."""
        with self.database.reading() as session:
            return counts_of(session, self.id)

    def trial_number(self, configuration: Configuration) -> int | None:
        """Return the number of a configuration's trial, or None when it has none."""
        with self.database.reading() as session:
            return session.scalar(
                select(ResultRow.number).where(ResultRow.study_id == self.id, ResultRow.key.in_(keys_of(configuration)))
            )

    def environment_of(self, configuration: Configuration) -> Environment:
        """Return where a configuration was measured; the study's own environment when it has no result."""
        with self.database.reading() as session:
            row = session.scalar(
                select(EnvironmentRow)
                .join(ResultRow, ResultRow.environment_id == EnvironmentRow.id)
                .where(ResultRow.study_id == self.id, ResultRow.key.in_(keys_of(configuration)))
            )
            return environment_of(row) if row else self.environment

    def set_ended(self, ended: Ended) -> None:
        """Record that a search was over, and with how many results."""
        with self.database.writing() as connection:
            write_ended(connection, self.optuna_id, ended)

    def ended(self) -> Ended | None:
        """Return the end of the last search that was over."""
        with self.database.reading() as session:
            return read_ended(session, self.optuna_id)

    def note(self, text: str | None = None, more: str = "") -> None:
        """Set the study's note in the dashboard; without a text, the usual one with the counts and the best so far.

        The usual note replaces the earlier one; text that people wrote above and below stays.

        Args:
            more: Text to append.
        """
        write = dashboard_note.rewrite_note if text is None else dashboard_note.write_note
        if text is None:
            with self.database.reading() as session:
                text = self._usual_note(session)
        with self.database.writing() as connection:
            write(connection, self.optuna_id, text + (more and f"\n{more}"))

    @property
    def short(self) -> str:
        """A brief name that commands take for this study."""
        with self.database.reading() as session:
            rows = session.execute(select(StudyRow.name, StudyRow.problem)).all()
        return short_name(self.name, [(row.name, row.problem) for row in rows])

    def command(self, name: str, *words: str) -> str:
        """Return a command line about this study: ``tune NAME STUDY WORDS``, ready to be copied."""
        return command(name, self.short, *words, where=self.database.location)

    def _usual_note(self, session: Session) -> str:
        counts, champion = counts_of(session, self.id), champion_of(session, self.id)
        best = champion or fastest_of(session, self.id)
        return dashboard_note.explain(self.key, self.environment, counts, best, self.database.location)

    def read_note(self) -> str:
        with self.database.reading() as session:
            return dashboard_note.read_note(session, self.optuna_id)
