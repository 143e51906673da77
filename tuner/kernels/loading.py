"""Load kernel templates from disk: the built-in ones, and a user's own by path."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType, ModuleType

from tuner.errors import UsageError
from tuner.kernels.calling import Broken, Home, called, shortened
from tuner.kernels.sources import placed
from tuner.kernels.template import KernelTemplate
from tuner.problems.registry import KINDS


def template_folder() -> Path:
    """Return the folder of the built-in templates: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "kernel_templates"
    return installed if installed.is_dir() else package.with_name("kernel_templates")


def builtin_templates(kind: str = "conv") -> dict[str, KernelTemplate]:
    """Load the product's templates for a kind of problem, by name."""
    return {path.stem: load_template(path) for path in _sources(_folder_of(kind))}


def every_template() -> dict[str, KernelTemplate]:
    """Load the product's templates for all kinds of problem, by name."""
    return {name: template for kind in KINDS for name, template in builtin_templates(kind).items()}


def builtin_names(kind: str = "conv") -> list[str]:
    """Return the names of the product's templates for a kind of problem."""
    return [path.stem for path in _sources(_folder_of(kind))]


def _folder_of(kind: str) -> Path:
    return template_folder() / kind


def _sources(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.py")) if path.with_suffix(".cu").exists())


def load_template(path: Path) -> KernelTemplate:
    """Load ``path`` (a .py file with a ``TEMPLATE``) and the .cu file beside it: a user's own in a process of its own.

    Raises:
        UsageError: As :func:`load_here` says; or it ends its process or takes too long.
    """
    python = _python_file(path)
    if _is_built_in(python):
        return load_here(python)
    from tuner.kernels.hosting.host import Host

    return Host(python).load()


def _is_built_in(python: Path) -> bool:
    return template_folder().resolve() == python.absolute().parent.parent.resolve()


def load_here(path: Path) -> KernelTemplate:
    """Load a template in this process.

    Raises:
        UsageError: A file is missing or unreadable, has a syntax error, or declares something impossible; one line
            that names the file and, where there is one, the line.
    """
    path = _python_file(path)
    home = Home(path=path.absolute())
    module = ModuleType(f"template_{path.stem}")
    module.__file__ = str(home.path)
    home.modules[module.__name__] = module  # where dataclasses look up names
    try:
        called(home, _execute, module)
    except Broken as error:
        raise UsageError(f"template {path}: {error}") from None
    declared = getattr(module, "TEMPLATE", None)
    if not isinstance(declared, KernelTemplate):
        what = "" if declared is None else f" (it is {shortened(declared)})"
        raise UsageError(
            f"template {path}: no TEMPLATE of type KernelTemplate{what}; assign one at the end of the file"
        )
    if _is_built_in(path):
        return declared
    return replace(declared, home=home, source=placed(declared.source, home.path))


def _python_file(path: Path) -> Path:
    try:
        python = path.with_suffix(".py")
        missing = [each for each in (python, python.with_suffix(".cu")) if not each.is_file()]
    except (ValueError, OSError) as error:  # not a file name, or in a folder without read permission
        raise UsageError(
            f"template {path}: {getattr(error, 'strerror', None) or 'a folder'}; name a .py file"
        ) from None
    if missing:
        broken = "" if python in missing else _syntax_error(python)
        raise UsageError(
            f"template {python}: {broken}there is no file {missing[0]}; a template is NAME.py beside NAME.cu"
        )
    return python


def _syntax_error(python: Path) -> str:
    """Return a file's syntax error, which takes precedence over other errors; empty if there is none."""
    try:
        called(Home(path=python.absolute()), _compiled, python.absolute())
    except Broken as error:
        return f"{error}; and "
    return ""


def _compiled(python: Path) -> CodeType:
    return compile(python.read_bytes(), str(python), "exec", dont_inherit=True)


def _execute(module: ModuleType) -> None:
    """Run a template's file."""
    importlib.invalidate_caches()
    exec(_compiled(Path(str(module.__file__))), module.__dict__)
