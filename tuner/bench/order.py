"""Whether a kernel is right on a CPU too when its threads and blocks run from the last to the first.

PoCL runs a block's threads one after another between barriers, from the first on. A kernel without a barrier that it
needs can be right there, when threads only read what those before them wrote; in the other order it is not.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tuner.bench.trial import Trial
from tuner.devices import compile_source
from tuner.devices.cache import CompileCache
from tuner.errors import CompileError, StrayWrite, WrongResult

LAST_FIRST = """
#define get_local_id(axis) (get_local_size(axis) - 1 - get_local_id(axis))
#define get_group_id(axis) (get_num_groups(axis) - 1 - get_group_id(axis))
#define get_global_id(axis) (get_group_id(axis) * get_local_size(axis) + get_local_id(axis))
"""
LAUNCHES = 5  # so many that before one of them y holds poison of all kinds


def check_other_order(trial: Trial) -> None:
    """Compile a kernel anew with its threads numbered the other way, and run it, where a CPU runs kernels.

    Raises:
        WrongResult: It is wrong then.
    """
    x, y, z = trial.task.rendered.launch.block
    if not trial.device.shares_host or x * y * z == 1:
        return
    with suppress(CompileError):  # names of its own that these words are in the way of
        source, environment = LAST_FIRST + trial.task.rendered.source, trial.device.environment
        make = CompileCache.default().get_or_make
        binary = make(environment, source, lambda: compile_source(environment, source))
        other = Trial(trial.inputs, replace(trial.task, binary=binary), trial.protocol, trial.limit)
        try:
            for _ in range(LAUNCHES):
                other.check()
        except StrayWrite:
            raise
        except WrongResult as error:
            raise WrongResult(f"{error}; so when threads run in the other order: is a barrier missing?") from None
