"""Source text of one configuration: the dialect's prelude, the parameters as ``#define`` lines, then the unchanged .cu.

The problem's sizes arrive as macros, a convolution's as ``LAYER_C``, ``LAYER_H``, ``LAYER_W``, ``LAYER_M``, ``LAYER_K``
(its rows are always a run-time argument); a word such as ``GRID_LAYOUT="B,M,1"`` becomes the enumerator
``GRID_LAYOUT_B_M_1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tuner.kernels.configuration import Configuration
from tuner.kernels.launch import Launch
from tuner.kernels.limits import ANY_MAGNITUDE, CUDA, Dialect, Magnitudes
from tuner.kernels.parameters import Choice, Parameter
from tuner.kernels.sources import marked
from tuner.kernels.template import KernelTemplate
from tuner.kernels.words import enumerator
from tuner.problems.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A compilable source with the geometry to launch it; small, picklable, and enough to run it anywhere."""

    source: str
    launch: Launch
    entry: str
    magnitudes: Magnitudes = ANY_MAGNITUDE
    static_memory: bool = False


@cache
def prelude(dialect: Dialect) -> str:
    """Return the definitions that let one .cu compile as CUDA C and OpenCL C."""
    return (Path(__file__).with_name("preludes") / f"{dialect}.h").read_text(encoding="utf-8")


@cache
def short_header() -> str:
    """Return the declarations that replace PoCL's own header."""
    return (Path(__file__).with_name("preludes") / "pocl.h").read_text(encoding="utf-8")


def render(
    template: KernelTemplate, configuration: Configuration, problem: Problem, dialect: Dialect, *, marks: bool = True
) -> Rendered:
    """Render one configuration of ``template`` for ``problem``.

    Args:
        marks: Add ``#line`` directives for a user's own template, so that compiler messages name its files.

    Raises:
        Infeasible: The template's launch or sizes fail for it.
    """
    launch = template.launch_of(configuration, problem)
    defines = size_defines(problem) + block_defines(launch) + parameter_defines(template, configuration)
    defines += size_lines(template.sizes_of(configuration, problem), dialect)
    if marks and template.home:
        named = ((f"{dialect}.h", prelude(dialect)), ("parameters", defines))
        parts = [f'#line 1 "{name}"\n{text}' for name, text in named] + [marked(template.source)]
    else:
        parts = [prelude(dialect), defines, template.source]
    return Rendered(
        source="\n".join(parts),
        launch=launch,
        entry=problem.ENTRY,
        magnitudes=template.magnitudes_of(configuration),
        static_memory=template.static_memory,
    )


def size_defines(problem: Problem) -> str:
    fixed = ((size, number) for size, number in problem.sizes.items() if size != problem.ROWS)
    return "".join(f"#define {problem.MACRO}_{size} {number}\n" for size, number in fixed)


def block_defines(launch: Launch) -> str:
    """Return the block's threads along x, y, z; OpenCL needs them to compile the kernel before its first launch."""
    return "".join(f"#define LAUNCH_{axis} {size}\n" for axis, size in zip("XYZ", launch.block, strict=True))


def size_lines(sizes: Mapping[str, tuple[int, str]], dialect: Dialect) -> str:
    """Return a line for each size: a constant of C++, or in OpenCL C, which has none at file scope, a macro."""
    lines = []
    quiet = bool(sizes) and dialect == CUDA  # a configuration may not use all of them
    if quiet:
        lines += ["#pragma nv_diagnostic push\n", "#pragma nv_diag_suppress 177\n"]
    for name, (number, comment) in sizes.items():
        text = str(number).lower() if dialect == CUDA else str(int(number))
        kind = "bool" if isinstance(number, bool) else "int"
        line = f"constexpr {kind} {name} = {text};" if dialect == CUDA else f"#define {name} {text}"
        lines.append(f"{line}{f'  // {comment}' if comment else ''}\n")
    if quiet:
        lines.append("#pragma nv_diagnostic pop\n")
    return "".join(lines)


def parameter_defines(template: KernelTemplate, configuration: Configuration) -> str:
    """Return one ``#define`` per parameter, preceded by the enumerators of those whose choices are words."""
    given = configuration.as_dict()
    lines: list[str] = []
    for parameter in template.parameters:
        lines += _define(parameter, given[parameter.name])
    return "\n".join(lines) + "\n"


def _define(parameter: Parameter, value: Choice) -> list[str]:
    if parameter.is_shape:
        return [f"#define {name} {part}" for name, part in parameter.parts(value).items() if isinstance(part, int)]
    if isinstance(value, int):
        return [f"#define {parameter.name} {value}"]
    words = [choice for choice in parameter.choices if isinstance(choice, str)]
    lines = [f"#define {enumerator(parameter.name, word)} {number}" for number, word in enumerate(words, start=1)]
    return [*lines, f"#define {parameter.name} {enumerator(parameter.name, value)}"]
