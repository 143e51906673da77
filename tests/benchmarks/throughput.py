"""Configurations a second, ours against Kernel Tuner's, on one machine in one call, verification on.

    python tests/benchmarks/throughput.py --layer conv2 --seconds 40

Both measure random configurations of the same template at the same batch: ours by ``tune run --sampler random``, Kernel
Tuner by brute force over as many random points as it finishes in about the same time, its answer being the reference's
output. Its PyCUDA backend has no dynamic shared memory, so its points are those under 48 KB, declared static.
Without Kernel Tuner or a GPU only our own figure is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tuner.kernels.template import Configuration, DeviceLimits, Launch

STATIC = "#define SHARED_MEMORY(type, name, count) __shared__ __align__(16) type name[count]"
DYNAMIC = re.compile(r"#define SHARED_MEMORY\(.*?\n(?=#define)", re.DOTALL)
STATIC_LIMIT = 48 * 1024
BLOCK = (256, 1, 1)  # Kernel Tuner's points: one block shape, since its restrictions cannot look a block up


def ours(layer: str, template: str, seconds: float, extra: list[str]) -> dict[str, float]:
    """Run ``tune run`` on an empty store and cache; return trials, seconds of searching, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from tuner.cli import main; main()", "run", "--layer", layer, "--json"]
        command += ["--template", template, "--sampler", "random", "--time", f"{seconds:.0f}s"]
        command += ["--storage", f"{folder}/t.db", *extra]
        environment = {**os.environ, "TUNER_CACHE_DIR": f"{folder}/cache"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    report = json.loads(done.stdout)
    spent = report["seconds"]
    searching = spent["total"] - spent["prepare"] - spent["finals"]
    return {"trials": report["trials"], "seconds": searching, "per_second": report["trials"] / searching, **spent}


def kernel_tuner(layer_name: str, template_name: str, points: int, backend: str) -> dict[str, float]:
    """Measure ``points`` random configurations with Kernel Tuner, verifying each; return its rate."""
    import kernel_tuner as peer

    from tuner.kernels.loading import builtin_templates
    from tuner.kernels.render import render
    from tuner.kernels.space import enumerate_template
    from tuner.problems.conv.dataset import load_test_split
    from tuner.problems.conv.layers import find_layer
    from tuner.problems.conv.networks import layer_input, layer_weights
    from tuner.problems.conv.reference import float32_conv

    layer = find_layer(layer_name)
    template = builtin_templates()[template_name]
    space = enumerate_template(template, layer, _limits())
    chance = random.Random(0)
    chosen: list[tuple[Configuration, Launch]] = []
    while len(chosen) < points:
        configuration = space.configuration(chance.randrange(len(space)))
        launch = template.launch_of(configuration, layer)
        if configuration.as_dict().get("WEIGHTS") == "constant":  # its symbols are not filled for a source of ours
            continue
        if launch.shared_bytes <= STATIC_LIMIT and launch.block == BLOCK:
            chosen.append((configuration, launch))
    x, w = layer_input(layer, load_test_split()), layer_weights(layer)
    y = np.zeros(layer.y_shape, np.float32)
    answer = [None, None, float32_conv(x, w), *[None] * 6]
    sizes = [np.int32(getattr(layer, size)) for size in "BCHWMK"]

    def source(params: dict[str, int]) -> str:
        text = render(template, chosen[params["POINT"]][0], layer, "cuda").source
        return DYNAMIC.sub(lambda _: STATIC + "\n", text, count=1)

    axes = {"POINT": list(range(points)), **{f"block_size_{axis}": [BLOCK[i]] for i, axis in enumerate("xyz")}}
    started = time.monotonic()
    results, _ = peer.tune_kernel(
        "conv_forward",
        source,
        lambda params: chosen[params["POINT"]][1].grid,
        [x, w, y, *sizes],
        axes,
        grid_div_x=[],
        grid_div_y=[],
        grid_div_z=[],
        answer=answer,
        atol=1e-3,
        lang=backend,
        quiet=True,
        compiler_options=["-O3", "-std=c++17"] if backend == "PYCUDA" else ["--std=c++17"],
    )
    spent = time.monotonic() - started
    good = sum(isinstance(result["time"], float) for result in results)
    return {"trials": len(results), "ok": good, "seconds": spent, "per_second": len(results) / spent}


def _limits() -> DeviceLimits:
    from tuner.devices import open_device

    device = open_device("cuda:0")
    limits = device.limits
    device.close()
    return limits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", default="conv2")
    parser.add_argument("--template", default="direct")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--peer", choices=("PYCUDA", "CUPY"), default="PYCUDA", help="Kernel Tuner's backend")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = {"ours": ours(given.layer, given.template, given.seconds, [])}
    print(f"tuner         {found['ours']['per_second']:6.2f} configurations a second ({found['ours']['trials']:.0f})")
    if find_spec("kernel_tuner"):
        rates = kernel_tuner(given.layer, given.template, max(8, int(given.seconds * 0.8)), given.peer)
        found["kernel_tuner"] = rates
        print(f"Kernel Tuner  {rates['per_second']:6.2f} configurations a second ({rates['trials']:.0f})")
        print(f"ratio         {found['ours']['per_second'] / rates['per_second']:6.1f}")
    else:
        print("Kernel Tuner is not installed; pip install kernel-tuner adds its line")
    if given.json:
        given.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
