"""The header's text: where the numbers come from, sizes and parameters as macros, geometry, and the kernel itself."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from tuner.errors import UsageError
from tuner.export import cuda, opencl
from tuner.export.geometry import Geometry, find_geometry
from tuner.layers import ConvLayer
from tuner.render import ENTRY, render
from tuner.results import Environment, Measurement, Result
from tuner.roofline import operands_of
from tuner.templates import CUDA, OPENCL, Choice, Dialect, KernelTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A measured configuration with everything a header says about it.

    Attributes:
        command: The command line that measures it again.
        tolerance: Largest absolute error allowed by the check, if known.
        naive_seconds: Median of the naive baseline measured in the same study, if there is one.
        options: What OpenCL's compiler must be given for the same numbers; empty for CUDA.
        file: The header's own file name, for its example.
    """

    result: Result
    layer: ConvLayer
    environment: Environment
    template: KernelTemplate
    study: str
    trial: int
    command: str
    tolerance: float | None = None
    naive_seconds: float | None = None
    options: str = ""
    file: str = ""

    @property
    def dialect(self) -> Dialect:
        return CUDA if self.environment.kind == CUDA else OPENCL

    @property
    def prefix(self) -> str:
        """The start of every macro of the header: ``sp18/conv2`` gives ``SP18_CONV2``."""
        name = re.sub(r"\W+", "_", self.layer.name).upper()
        return name if name[0].isalpha() else f"CONV_{name}"

    @property
    def entry(self) -> str:
        return f"{self.prefix.lower()}_forward"


def render_header(winner: Winner) -> str:
    """Return the header for a configuration.

    Raises:
        UsageError: The result is not a correct, fully measured one, or its template does not declare it.
    """
    measurement = winner.result.measurement
    if not winner.result.ok or measurement is None or measurement.pruned:
        raise UsageError(f"export {winner.study}, trial {winner.trial}: {winner.result.outcome} is not a full result")
    configuration = winner.template.configuration(winner.result.configuration.as_dict())
    source = render(winner.template, configuration, winner.layer, winner.dialect, marks=False).source
    source = re.sub(rf"\b{ENTRY}\b", winner.entry, source)
    geometry = find_geometry(winner.template, configuration, winner.layer)
    dialect = cuda if winner.dialect == CUDA else opencl
    guard, file = f"{winner.prefix}_FORWARD_H", winner.file or f"{winner.prefix.lower()}.h"
    parts = (
        _comment(
            (
                *_provenance(winner, measurement),
                "",
                *dialect.usage(winner.prefix, winner.entry, file, winner.environment.arch),
            )
        ),
        f"#ifndef {guard}\n#define {guard}\n",
        _macros(winner, geometry),
        dialect.body(winner.prefix, winner.entry, winner.options, source, geometry),
        f"#endif  // {guard}\n",
    )
    return "\n".join(parts)


def _comment(lines: tuple[str, ...]) -> str:
    """Return comment lines; what a driver or a user named cannot end or continue them."""
    return "".join(f"// {_one_line(line)}".rstrip() + "\n" for line in lines)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines()).rstrip("\\ ")


def _provenance(winner: Winner, measurement: Measurement) -> tuple[str, ...]:
    result, where, layer = winner.result, winner.environment, winner.layer
    low, high = (1e3 * bound for bound in measurement.interval)
    taken = datetime.fromtimestamp(result.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    checked = "checked again on second inputs and a ragged batch" if result.confirmed else "not confirmed yet"
    return (
        f"{winner.entry}: {layer.name} forward, {layer.describe()}, {_numbers(result)}.",
        f"The fastest correct configuration found by {_product()}.",
        "",
        f"  measured  {result.seconds * 1e3:.4g} ms (median of {len(measurement.samples)} launches, 95% interval "
        f"{low:.4g} to {high:.4g} ms), {layer.flop / result.seconds / 1e9:,.0f} GFLOP/s",
        *_speedup(winner),
        f"  error     at most {_number(result.max_error)}, allowed {_number(winner.tolerance)}; {checked}",
        f"  device    {where.model}, driver {where.driver}, {where.arch}",
        f"  compiler  {where.toolkit}",
        f"  study     {winner.study}, trial {winner.trial}, {taken}",
        f"  template  {winner.template.name}: {winner.template.idea}",
        f"  again     {winner.command}",
    )


def _numbers(result: Result) -> str:
    operands = operands_of(result.configuration)
    return "float32" if operands == "fp32" else f"float32 in memory, multiplied as {operands} on tensor cores"


def _speedup(winner: Winner) -> tuple[str, ...]:
    if winner.naive_seconds is None:
        return ()
    times = winner.naive_seconds / winner.result.seconds
    return (f"  speed-up  {times:.3g} times over the naive kernel ({winner.naive_seconds * 1e3:.4g} ms)",)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _product() -> str:
    try:
        return f"tuner {version('tuner')}"
    except PackageNotFoundError:
        return "tuner"


def _macros(winner: Winner, geometry: Geometry) -> str:
    layer, prefix = winner.layer, winner.prefix
    sizes = {name: getattr(layer, name) for name in ("C", "H", "W", "M", "K", "H_out", "W_out")}
    lines = ["// Sizes: x is (B, C, H, W), w is (M, C, K, K), y is (B, M, H_out, W_out), all float, row-major."]
    lines += [f"#define {prefix}_{name.upper()} {size}" for name, size in sizes.items()]
    lines += [f"#define {prefix}_B {layer.B}  // the batch that was measured"]
    lines += ["", "// The configuration."]
    lines += [f'#define {prefix}_TEMPLATE "{winner.template.name}"']
    given = winner.result.configuration.as_dict()
    for parameter in winner.template.parameters:
        for name, value in parameter.parts(given[parameter.name]).items():
            doc = f"  // {_one_line(parameter.doc)}" if name == parameter.name else ""
            lines.append(f"#define {prefix}_{name} {_literal(value)}{doc}")
    return "\n".join((*lines, "", *_geometry_macros(winner, geometry))) + "\n"


def _literal(value: Choice) -> str:
    return json.dumps(value)


def _geometry_macros(winner: Winner, geometry: Geometry) -> list[str]:
    prefix, launch = winner.prefix, geometry.launch
    lines = [
        f"// Launch: blocks for B images, threads of a block, dynamic shared bytes. Measured at B = {winner.layer.B}."
    ]
    if geometry.rules:
        for axis, rule in zip("XYZ", geometry.rules, strict=True):
            words = f"  // {rule.words()}" if rule.words() else ""
            lines.append(f"#define {prefix}_LAUNCH_GRID_{axis}(B) {rule.text()}{words}")
    else:
        lines.append(f"// The grid follows B in no simple way: this one is for B = {winner.layer.B} and no other.")
        lines += [
            f"#define {prefix}_LAUNCH_GRID_{axis}(B) {blocks}" for axis, blocks in zip("XYZ", launch.grid, strict=True)
        ]
    lines += [f"#define {prefix}_LAUNCH_THREADS_{axis} {size}" for axis, size in zip("XYZ", launch.block, strict=True)]
    return [*lines, f"#define {prefix}_LAUNCH_SHARED_BYTES {launch.shared_bytes}"]
