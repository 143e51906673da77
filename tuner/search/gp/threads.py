"""How many threads linear algebra may use."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra to one thread: the matrices are small, and other threads spin where kernels compile."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1)
    return limited


@cache
def _libraries() -> Any:
    """Find the loaded linear-algebra libraries, after SciPy has loaded its own."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped, unused-ignore]

    return ThreadpoolController()
