"""Whether a problem has room on a device."""

from __future__ import annotations

from tuner.errors import UsageError
from tuner.problems.problem import Problem

MAX_ELEMENTS = 2**32 - 1


def check_fits(problem: Problem, memory_bytes: int) -> None:
    """Refuse a problem that the bench cannot hold, before anything is allocated.

    A host that promises more memory than it has would kill this process later, without a word.

    Raises:
        UsageError: Names what is needed and what there is.
    """
    output = problem.output
    remedy = f"lower {problem.ROWS_OPTION}" if problem.rows > 1 else "give smaller sizes"
    if output.size > MAX_ELEMENTS:
        raise UsageError(
            f"{problem.noun} {problem.name}: {output.name} has {output.size:,} elements, limit {MAX_ELEMENTS:,}; "
            f"{remedy}"
        )
    needed = problem.least_bytes + output.nbytes
    if needed > memory_bytes:
        names = ", ".join(tensor.name for tensor in problem.tensors)
        raise UsageError(
            f"{problem.noun} {problem.name}: {names} and the reference's {output.name} take {needed / 1e9:,.1f} GB, "
            f"the device has {memory_bytes / 1e9:,.1f}; {remedy}"
        )
