"""How large each layer's space is on a CUDA device, and what enumerating it costs.

python tests/benchmarks/spaces.py --precision fp32
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from dataclasses import dataclass, replace

import support_path  # noqa: F401
from templates import CUDA_LIMITS

from tuner.kernels.loading import builtin_templates
from tuner.kernels.space import enumerate_space
from tuner.kernels.template import DeviceLimits, KernelTemplate
from tuner.problems.conv.layers import LAYERS, ConvLayer
from tuner.search.candidates import Candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumerated:
    """A space's size by template, with the CPU seconds and the most bytes that it took.

    The bytes include the table that samplers choose from.
    """

    sizes: dict[str, int]
    seconds: float
    peak_bytes: int

    @property
    def size(self) -> int:
        return sum(self.sizes.values())


def enumerate_measured(templates: list[KernelTemplate], layer: ConvLayer, limits: DeviceLimits) -> Enumerated:
    started = time.process_time()
    space = enumerate_space(templates, layer, limits)
    seconds = time.process_time() - started
    sizes = {part.template.name: len(part) for part in space.parts}
    del space
    tracemalloc.start()
    try:
        Candidates.of(enumerate_space(templates, layer, limits))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return Enumerated(sizes=sizes, seconds=seconds, peak_bytes=peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", default="fp32", help="fp32, tf32, fp16 or bf16")
    asked = parser.parse_args()
    templates = builtin_templates()
    limits = replace(CUDA_LIMITS, precision=asked.precision)
    columns = ("layer", *templates, "all", "CPU s", "MB")
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for layer in LAYERS.values():
        found = enumerate_measured(list(templates.values()), layer, limits)
        counts = (f"{found.sizes.get(name, 0):,}" for name in templates)
        cells = (layer.name, *counts, f"{found.size:,}", f"{found.seconds:.2f}", f"{found.peak_bytes / 1e6:.0f}")
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
