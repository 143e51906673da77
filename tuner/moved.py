"""Former names of modules, which users' templates may still import: each loads the module it has become."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "tuner.arithmetic": "tuner.kernels.arithmetic",
    "tuner.capabilities": "tuner.kernels.capabilities",
    "tuner.expressions": "tuner.kernels.expressions",
    "tuner.layers": "tuner.problems.conv.layers",
    "tuner.loading": "tuner.kernels.loading",
    "tuner.rules": "tuner.kernels.heuristics",
    "tuner.sizes": "tuner.kernels.sizes",
    "tuner.templates": "tuner.kernels.template",
    "tuner.values": "tuner.kernels.values",
}


class _Finder:
    """Finds moved modules by their former names."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, _Loader(MOVED[name])) if name in MOVED else None  # type: ignore[arg-type]


class _Loader:
    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        module = import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's ``__spec__``, in which the import has put the former name."""
        module.__spec__ = self.spec


def install() -> None:
    """Make former names importable."""
    sys.meta_path.append(_Finder)
