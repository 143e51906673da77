"""Run PyTorch in its own process: whatever happens there comes back as a number or as one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from tuner.compare.rows import Variant
from tuner.compare.torch_side import TorchSpec, enter_variant, open_torch, sample_variant
from tuner.errors import TunerError
from tuner.processes.pool import DIED, Processes

T = TypeVar("T")
OPEN_SECONDS = 180.0
ENTER_SECONDS = 180.0
COMPILE_SECONDS = 900.0  # max-autotune tries many kernels
SAMPLE_SECONDS = 60.0


def installed() -> bool:
    """Whether PyTorch is installed here; does not import it."""
    return importlib.util.find_spec("torch") is not None


class TorchProcess:
    """One process with PyTorch in it.

    Raises:
        TunerError: From every method: PyTorch does not load, has no such device, or fails; one line.
    """

    def __init__(self, spec: TorchSpec) -> None:
        self._spec = spec
        self._processes = Processes(1)
        try:
            self.facts = self._call(open_torch, spec, limit=OPEN_SECONDS)
        finally:
            if not hasattr(self, "facts"):
                self.close()

    def _call(self, function: Callable[..., T], *arguments: Any, limit: float) -> T:
        try:
            return self._processes.schedule(function, *arguments, limit=limit).result()
        except FutureTimeout:
            raise TunerError(f"took longer than its limit of {limit:.0f} s") from None
        except DIED as error:
            raise TunerError(f"PyTorch's process died with exit code {getattr(error, 'exitcode', '?')}") from None

    def enter(self, variant: Variant) -> float:
        """Prepare a variant: place its inputs, choose its algorithm, check every element; return its largest error."""
        limit = COMPILE_SECONDS if variant.compiled else ENTER_SECONDS
        return self._call(enter_variant, self._spec, variant, limit=limit)

    def sample(self, variant: Variant) -> float:
        return self._call(sample_variant, self._spec, variant, limit=SAMPLE_SECONDS)

    def close(self) -> None:
        self._processes.close()
