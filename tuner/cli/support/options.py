"""Options that several commands share, and the values they read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tuner.errors import UsageError
from tuner.suggestions import alternatives

if TYPE_CHECKING:
    from tuner.kernels.template import KernelTemplate

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_STORAGE = "sqlite:///studies/tuner.db"
STORAGE_VARIABLE = "TUNER_STORAGE"


def duration(value: str) -> float:
    """Read seconds from ``90``, ``60s``, ``2m`` or ``1h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", value.strip())
    if not match:
        raise click.BadParameter(f"'{value}' is not a time; write 60s, 2m or 1h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2] or "s"]


def default_storage() -> str:
    """Return the store used when none is named: ``TUNER_STORAGE``, else a file below the current folder."""
    return os.environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE


storage = click.option(
    "--storage",
    envvar=STORAGE_VARIABLE,
    default=DEFAULT_STORAGE,
    show_default=True,
    show_envvar=True,
    metavar="URL",
    help="Where studies are kept: path or URL.",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress; print the result alone.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
explain = click.option("--explain", is_flag=True, help="Say which parameters matter, and how well a model predicts.")
device = click.option(
    "--device", default="auto", show_default=True, metavar="NAME", help="auto, cpu, cuda, cuda:N or opencl:N."
)
precision = click.option(
    "--precision",
    default="fp32",
    show_default=True,
    metavar="NAME",
    help="What factors may be rounded to: fp32, tf32, fp16, bf16; sums are FP32. More precise kernels compete too.",
)
data = click.option(
    "--data", type=click.Path(path_type=Path), metavar="DIR", help="IDX files to use instead of the packaged images."
)
templates = click.option(
    "--template",
    "templates",
    multiple=True,
    metavar="NAME|PATH",
    help="Tune this template only (repeatable); a path names your own .py beside its .cu, which its study remembers.",
)

only = click.option(
    "--only",
    multiple=True,
    metavar="CHOICES",
    help='Restrict to some choices: "TILE_W=1,2,4 COPY_BY=register", or template=NAME.',
)


def chosen_templates(names: tuple[str, ...], kind: str | None = None) -> tuple[KernelTemplate, ...]:
    """Return the named templates, built-in or by path; all built-in ones for none, or a kind's."""
    from tuner.kernels.loading import builtin_templates, every_template, load_template

    known = builtin_templates(kind) if kind else every_template()
    if not names:
        return tuple(known.values())
    return tuple(load_template(Path(name)) if _is_path(name) else _known(name, known) for name in names)


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".py", ".cu"))


def _known(name: str, known: dict[str, KernelTemplate]) -> KernelTemplate:
    from tuner.kernels.loading import load_template

    if name not in known:
        if Path(name).with_suffix(".py").is_file():
            return load_template(Path(name))
        raise UsageError(f"template '{name}' is unknown; give a name or a .py file; {alternatives(name, list(known))}")
    return known[name]
