"""The verified winner of a study, or why there is none: the one place where its absence is an error."""

from __future__ import annotations

from tuner.errors import NoWinner
from tuner.results import OK
from tuner.storage import Champion, StudyHandle
from tuner.storage.commands import storage_option
from tuner.storage.dashboard_note import resume_command


def verified_best(handle: StudyHandle) -> Champion:
    """Return the winner of a study.

    Raises:
        NoWinner: No finals have chosen one yet.
    """
    champion = handle.champion()
    if champion is None:
        raise NoWinner(f"study '{handle.name}': {no_winner(handle)}")
    return champion


def no_winner(handle: StudyHandle) -> str:
    """Say that a study has no winner, and what settles it, or why nothing does."""
    counts = handle.counts()
    tried = sum(counts.values())
    if tried and not counts.get(OK):
        failed = "its one trial" if tried == 1 else f"all {tried:,} trials"
        return f"no verified winner: {failed} failed; {handle.command('show', '--failures')} says why"
    return f"no verified winner yet; {command_of(handle)} continues and finds it"


def command_of(handle: StudyHandle) -> str:
    """Return the command line that makes or resumes a study, with its store."""
    return f"{resume_command(handle.key, handle.environment.device)}{storage_option(handle.database.location)}"
