"""One database for everything a study leaves behind: Optuna's study and the tuner's typed tables, side by side."""

from tuner.storage.claims import COMPILE, LAUNCH, Claim
from tuner.storage.ended import Ended
from tuner.storage.location import DEFAULT_URL, foresee
from tuner.storage.runs import Announcement
from tuner.storage.store import Store
from tuner.storage.study import StudyHandle
from tuner.storage.summaries import StudySummary
from tuner.storage.view import StudyView, read_study, view_of
from tuner.storage.winner import Champion
from tuner.storage.writer import Writer

__all__ = [
    "COMPILE",
    "DEFAULT_URL",
    "LAUNCH",
    "Announcement",
    "Champion",
    "Claim",
    "Ended",
    "Store",
    "StudyHandle",
    "StudySummary",
    "StudyView",
    "Writer",
    "foresee",
    "read_study",
    "view_of",
]
