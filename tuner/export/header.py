"""The header's text: sizes and parameters as macros, geometry, and the kernel itself."""

from __future__ import annotations

import hashlib
import json
import re

from tuner.errors import UsageError
from tuner.export import cuda, opencl
from tuner.export.geometry import Geometry, find_geometry
from tuner.export.kernel import Kernel
from tuner.export.provenance import one_line, provenance
from tuner.export.winner import Winner
from tuner.kernels.limits import CUDA
from tuner.kernels.parameters import Choice
from tuner.kernels.render import render
from tuner.problems.problem import Tensor


def render_header(winner: Winner) -> str:
    """Return the header for a configuration.

    Raises:
        UsageError: The result is not a correct, fully measured one, or its template does not declare it.
    """
    geometry, source = _kernel(winner)
    dialect = cuda if winner.dialect == CUDA else opencl
    usage = dialect.usage(winner.problem, winner.prefix, winner.entry, _file(winner), winner.environment.arch)
    inside = (
        _macros(winner, geometry),
        dialect.body(_of_header(winner, source, geometry)),
    )
    return _guarded(winner, usage, "\n".join(inside))


def render_split(winner: Winner) -> tuple[str, str]:
    """Return a header that any compiler takes, and the .cu file beside it that holds the kernel and its launcher.

    Raises:
        UsageError: As :func:`render_header`, or it is not of CUDA.
    """
    if winner.dialect != CUDA:
        raise UsageError(f"export --split: {winner.study} is of OpenCL, whose header is plain C; leave --split out")
    geometry, source = _kernel(winner)
    prefix, file = winner.prefix, _file(winner)
    inside = "\n".join((_macros(winner, geometry), *cuda.declaration(winner.problem, winner.entry), ""))
    header = _guarded(winner, cuda.split_usage(winner.problem, winner.entry, file, winner.environment.arch), inside)
    lines = (
        f"// The kernel of {file}: nvcc {cuda.target(winner.environment.arch)} -c.",
        f'#include "{file}"',
        "#include <cuda_runtime.h>",
        "",
        f'#define {prefix}_LINKAGE extern "C"',
        "",
        *cuda.definition(_of_header(winner, source, geometry)),
        "",
    )
    return header, "\n".join(lines)


def _kernel(winner: Winner) -> tuple[Geometry, str]:
    """Return how the configuration is launched, and its source with the header's entry point.

    Raises:
        UsageError: It is no correct, fully measured one, or its template does not declare it.
    """
    measurement = winner.result.measurement
    if not winner.result.ok or measurement is None or measurement.pruned:
        raise UsageError(f"export {winner.study}, trial {winner.trial}: {winner.result.outcome} is not a full result")
    configuration = winner.template.configuration(winner.result.configuration.as_dict())
    source = render(winner.template, configuration, winner.problem, winner.dialect, marks=False).source
    return find_geometry(winner.template, configuration, winner.problem), re.sub(
        rf"\b{winner.problem.ENTRY}\b", winner.entry, source
    )


def _of_header(winner: Winner, source: str, geometry: Geometry) -> Kernel:
    return Kernel(
        problem=winner.problem,
        prefix=winner.prefix,
        entry=winner.entry,
        source=source,
        geometry=geometry,
        options=winner.options,
    )


def _file(winner: Winner) -> str:
    return winner.file or f"{winner.prefix.lower()}.h"


def _guarded(winner: Winner, usage: tuple[str, ...], inside: str) -> str:
    """Return the header: once in a file, and an error should another header of its names differ."""
    measurement = winner.result.measurement
    assert measurement is not None
    guard, mark = f"{winner.prefix}_FORWARD_H", f"0x{hashlib.sha256(inside.encode()).hexdigest()[:7]}"
    return "\n".join(
        (
            _comment((*provenance(winner, measurement), "", *usage)),
            f"#ifndef {guard}\n#define {guard} {mark}\n",
            inside,
            f"#elif {guard} != {mark}",
            f'#error "two different headers of {winner.prefix}; keep one, or export both again"',
            f"#endif  // {guard}\n",
        )
    )


def _comment(lines: tuple[str, ...]) -> str:
    """Return comment lines; what a driver or a user named cannot end or continue them."""
    return "".join(f"// {one_line(line)}".rstrip() + "\n" for line in lines)


def _macros(winner: Winner, geometry: Geometry) -> str:
    problem, prefix, rows = winner.problem, winner.prefix, winner.problem.ROWS
    shapes = ", ".join(f"{tensor.name} is ({', '.join(tensor.dims)})" for tensor in problem.tensors)
    lines = ["#include <stddef.h>", "", f"// Sizes: {shapes}, all float, row-major."]
    lines += [f"#define {prefix}_{name.upper()} {size}" for name, size in problem.named_numbers.items()]
    low, high = geometry.batches(problem)
    fixed = [size for size in problem.SIZES if size != rows]
    fits = " && ".join(f"({size.lower()}) == {prefix}_{size}" for size in fixed)
    lines += [
        f"#define {prefix}_{rows} {problem.rows}  // as was measured",
        f"#define {prefix}_MIN_{rows} {low}",
        f"#define {prefix}_MAX_{rows} {high}  // of a launch, as many as were checked; {_beyond(winner, geometry)}",
        f'#define {prefix}_PRECISION "{winner.precision}"',
        f"// Elements for {rows} {problem.ROWS_NOUN}, and whether a {problem.noun} is this one, for static_assert.",
        *(_elements(prefix, rows, tensor) for tensor in problem.tensors),
        f"#define {prefix}_FITS({', '.join(size.lower() for size in fixed)}) ({fits})",
    ]
    lines += ["", "// The configuration."]
    lines += [f'#define {prefix}_TEMPLATE "{winner.template.name}"']
    given = winner.result.configuration.as_dict()
    for parameter in winner.template.parameters:
        for name, value in parameter.parts(given[parameter.name]).items():
            doc = f"  // {one_line(parameter.doc)}" if name == parameter.name else ""
            lines.append(f"#define {prefix}_{name} {_literal(value)}{doc}")
    return "\n".join((*lines, "", *_geometry_macros(winner, geometry))) + "\n"


def _beyond(winner: Winner, geometry: Geometry) -> str:
    """Say what becomes of more rows than a launch may have."""
    part = geometry.part(winner.problem) if winner.dialect == CUDA else 0
    return f"more become launches of {part}" if part else "others are refused"


def _elements(prefix: str, rows: str, tensor: Tensor) -> str:
    """Return the macro of a tensor's elements."""
    factors = [f"({dim})" if dim == rows else f"{prefix}_{dim.upper()}" for dim in tensor.dims]
    arguments = f"({rows})" if tensor.rows else ""
    return f"#define {prefix}_{tensor.name.upper()}_SIZE{arguments} ((size_t){' * '.join(factors)})"


def _literal(value: Choice) -> str:
    return json.dumps(value)


def _geometry_macros(winner: Winner, geometry: Geometry) -> list[str]:
    prefix, launch, problem = winner.prefix, geometry.launch, winner.problem
    rows = problem.ROWS
    lines = [
        f"// Launch: blocks for {rows} {problem.ROWS_NOUN}, threads of a block, dynamic shared bytes. Measured at "
        f"{rows} = {problem.rows}."
    ]
    if geometry.rules:
        for axis, rule in zip("XYZ", geometry.rules, strict=True):
            words = f"  // {_of(rows, rule.words())}" if "/" in rule.text() or "<" in rule.text() else ""
            lines.append(f"#define {prefix}_LAUNCH_GRID_{axis}({rows}) {_of(rows, rule.text())}{words}")
    else:
        lines.append(
            f"// The grid follows {rows} in no simple way: this one is for {rows} = {problem.rows} and no other."
        )
        lines.append(f"// ({one_line(geometry.why)})")
        lines += [
            f"#define {prefix}_LAUNCH_GRID_{axis}({rows}) {blocks}"
            for axis, blocks in zip("XYZ", launch.grid, strict=True)
        ]
    lines += [f"#define {prefix}_LAUNCH_THREADS_{axis} {size}" for axis, size in zip("XYZ", launch.block, strict=True)]
    return [*lines, f"#define {prefix}_LAUNCH_SHARED_BYTES {launch.shared_bytes}"]


def _of(rows: str, text: str) -> str:
    """Write a rule, which is one of B, by the problem's own letter."""
    return re.sub(r"\bB\b", rows, text)
