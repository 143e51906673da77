"""Kernel templates from the disk: those of the product, and the user's own by their path."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

from tuner.errors import UsageError
from tuner.templates import KernelTemplate


def template_folder() -> Path:
    """Return the folder of the built-in templates: inside the installed package, or beside it in a checkout."""
    installed = Path(__file__).with_name("kernel_templates")
    return installed if installed.is_dir() else Path(__file__).parent.with_name("kernel_templates")


def builtin_templates() -> dict[str, KernelTemplate]:
    """Load every template of the product, by name."""
    return {path.stem: load_template(path) for path in _sources(template_folder())}


def _sources(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.py")) if path.with_suffix(".cu").exists())


def load_template(path: Path) -> KernelTemplate:
    """Load ``path`` (a .py file with a ``TEMPLATE``) and the .cu file beside it.

    Raises:
        UsageError: A file is missing or unreadable, has a syntax error, or declares something impossible; one line
            that names the file.
    """
    path = path.with_suffix(".py")
    for needed in (path, path.with_suffix(".cu")):
        if not needed.is_file():
            raise UsageError(f"template {path}: there is no file {needed}; a template is NAME.py beside NAME.cu")
    try:
        declared = runpy.run_path(str(path)).get("TEMPLATE")
    except SyntaxError as error:
        raise UsageError(f"template {path}:{error.lineno}: {error.msg}") from None
    except UsageError as error:
        raise UsageError(f"template {path}: {error}") from None
    except Exception as error:
        raise UsageError(f"template {path}: {type(error).__name__}: {error}") from None
    if not isinstance(declared, KernelTemplate):
        raise UsageError(f"template {path}: no TEMPLATE of type KernelTemplate; assign one at the end of the file")
    return declared
