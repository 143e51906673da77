"""The tuning run: propose, compile ahead, check, measure, record, and settle the winner."""

from tuner.tuning.options import RunOptions
from tuner.tuning.progress import Costs, Observer, Progress, Report, Standing, Unstored
from tuner.tuning.session import tune
from tuner.tuning.stored import interrupted_early

__all__ = ["Costs", "Observer", "Progress", "Report", "RunOptions", "Standing", "Unstored", "interrupted_early", "tune"]
