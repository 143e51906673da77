"""tuner: finds the fastest correct configuration of a GPU kernel, and proves it.

The command is ``tune``. From Python::

    from tuner import tune
    print(tune("conv2", trials=20))

Importing this package needs no GPU library and imports nothing heavy; names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tuner.moved import install

if TYPE_CHECKING:
    from tuner.api import tune
    from tuner.errors import TunerError, UsageError
    from tuner.kernels.loading import builtin_templates, load_template
    from tuner.kernels.template import (
        Baseline,
        Configuration,
        Constraint,
        KernelTemplate,
        Launch,
        Parameter,
        read_source,
    )
    from tuner.problems.conv.layers import LAYERS, ConvLayer, find_layer
    from tuner.results import Measurement, Result
    from tuner.storage import Store
    from tuner.tuning import Observer, Progress, RankedResult, Report, RunOptions, Standing

_HOMES = {
    "tuner.api": ("tune",),
    "tuner.errors": ("TunerError", "UsageError"),
    "tuner.problems.conv.layers": ("LAYERS", "ConvLayer", "find_layer"),
    "tuner.kernels.loading": ("builtin_templates", "load_template"),
    "tuner.results": ("Measurement", "Result"),
    "tuner.storage": ("Store",),
    "tuner.kernels.template": (
        "Baseline",
        "Configuration",
        "Constraint",
        "KernelTemplate",
        "Launch",
        "Parameter",
        "read_source",
    ),
    "tuner.tuning": ("Observer", "Progress", "RankedResult", "Report", "RunOptions", "Standing"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

install()

__all__ = [
    "LAYERS",
    "Baseline",
    "Configuration",
    "Constraint",
    "ConvLayer",
    "KernelTemplate",
    "Launch",
    "Measurement",
    "Observer",
    "Parameter",
    "Progress",
    "RankedResult",
    "Report",
    "Result",
    "RunOptions",
    "Standing",
    "Store",
    "TunerError",
    "UsageError",
    "builtin_templates",
    "find_layer",
    "load_template",
    "read_source",
    "tune",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tuner")
    if name not in _HOME:
        raise AttributeError(f"module 'tuner' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)
