"""The tuning run: propose, compile ahead, check, measure, record, and settle the winner."""

from tuner.tuning.options import RunOptions
from tuner.tuning.progress import Costs, Observer, Progress, RankedResult, Report, Unstored
from tuner.tuning.session import tune
from tuner.tuning.stored import interrupted_early

__all__ = [
    "Costs",
    "Observer",
    "Progress",
    "RankedResult",
    "Report",
    "RunOptions",
    "Standing",
    "Unstored",
    "interrupted_early",
    "tune",
]

Standing = RankedResult  # the name of RankedResult in version 0.1.0
