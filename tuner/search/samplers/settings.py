"""The settings of the surrogate's search."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.search.gp.kernel import Prior


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The defaults serve all kernels.

    Attributes:
        opening: Trials before the model leads.
        known: Most results that a model holds.
        radius: Largest number of parameters in which every other proposal differs from the fastest configuration.
        compress: Reach of the scale for slow values, relative to how far the fastest is below the median.
        members: Models whose expected improvement is averaged; one of them is renewed at a time.
        pool: Number of promising rows of a large space that are scored, and of random ones.
        doubt: Standard deviation of the random move of the prior before a fit, relative to the prior's own.
        scorings: Most scorings of the pool for the proposals of one call; None: one for each proposal.
        prior: Prior of the kernel's hyperparameters.
    """

    opening: int = 4
    known: int = 240
    radius: int = 2
    compress: float = 0.3
    members: int = 4
    pool: int = 3_000
    doubt: float = 0.7
    scorings: int | None = None
    prior: Prior = field(default_factory=Prior)


HURRIED = Settings(members=1, pool=1_300, scorings=4, known=160)  # for trials of milliseconds that wait for proposals
