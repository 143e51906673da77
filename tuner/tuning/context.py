"""What every part of a run shares from beginning to end."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.bench.worker import Worker
from tuner.kernels.space import Space
from tuner.storage import StudyHandle
from tuner.tuning.budget import Budget
from tuner.tuning.canary import Canary
from tuner.tuning.interrupt import Interrupt
from tuner.tuning.options import RunOptions
from tuner.tuning.progress import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The context of one run: its options, observer, device, study and clock.

    Attributes:
        space: The whole space of the study.
        searched: The part of it that this run searches.
        interrupt: True once Ctrl-C was pressed.
    """

    options: RunOptions
    observer: Observer
    worker: Worker
    space: Space
    searched: Space
    handle: StudyHandle
    budget: Budget
    interrupt: Interrupt
    canary: Canary

    @property
    def shares_host(self) -> bool:
        """Whether kernels run on the cores that also compile."""
        return self.worker.facts.shares_host
