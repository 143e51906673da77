"""``--stop-at``: end the search when the best is so near the floor that little is left to find."""

from __future__ import annotations

from tuner.bench.roofline import FORMERLY, MMA_TYPE, Roof, least_roof
from tuner.tuning.options import RunOptions
from tuner.tuning.progress import Progress


def stop_floor(options: RunOptions, progress: Progress) -> Roof | None:
    """Return the lowest floor over all operand types of the run's templates: a faster type may still be tried."""
    choices = [
        choice
        for template in options.templates
        for parameter in template.parameters
        if parameter.name in (MMA_TYPE, FORMERLY)
        for choice in parameter.choices
    ]
    return least_roof(options.problem, progress.environment, options.precision, choices)


def near_floor(options: RunOptions, progress: Progress) -> bool:
    """Whether the best is fully measured and has reached the requested share of the floor."""
    best = progress.best
    if options.stop_at is None or best is None or best.measurement is None or best.measurement.pruned:
        return False
    if best.text:  # its time depends on the data
        return False
    floor = stop_floor(options, progress)
    return floor is not None and floor.share(best.seconds) >= options.stop_at
