"""What the profiler runs: one launch of one kernel on its real inputs, in this process, without limits on its time.

``python -m tuner.profiling.target FILE``; the profiler runs the launch several times, a few counters each time.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuner.layers import ConvLayer
from tuner.protocol import BenchSpec
from tuner.render import Rendered
from tuner.templates import Launch

LIMIT_SECONDS = 600.0


def describe(spec: BenchSpec, rendered: Rendered) -> str:
    """Return the text of the file: device, layer, precision, source and launch."""
    return json.dumps(
        {
            "device": spec.device,
            "layer": asdict(spec.layer),
            "precision": spec.precision,
            "data": None if spec.data is None else str(spec.data.absolute()),
            "source": rendered.source,
            "entry": rendered.entry,
            "launch": asdict(rendered.launch),
        }
    )


def run(path: Path) -> None:
    """Prepare the bench, then launch the kernel once."""
    from tuner.bench import Bench, sizes
    from tuner.cache import CompileCache
    from tuner.devices import compile_source, open_device
    from tuner.inputs import network_inputs

    given = json.loads(path.read_text(encoding="utf-8"))
    data = given["data"] and Path(given["data"])
    layer = ConvLayer(**given["layer"])
    spec = BenchSpec(device=given["device"], layer=layer, precision=given["precision"], data=data)
    launch = _launch(given["launch"])
    device = open_device(spec.device)
    bench = Bench(device, layer)
    inputs = network_inputs(bench, spec)
    source, machine = given["source"], device.environment
    binary = CompileCache.default().get_or_make(machine, source, lambda: compile_source(machine, source))
    kernel = device.load(binary, given["entry"], launch)
    inputs.place()
    kernel.set_constant_weights(bench.w, 4 * layer.M * layer.reduction)
    device.synchronize()
    arguments = (bench.x, bench.w, bench.y, *sizes(layer))
    device.timed(kernel, launch, arguments, limit=LIMIT_SECONDS, repeat=1)
    inputs.verify()
    del kernel, inputs, bench
    device.close()


def _launch(given: dict[str, Any]) -> Launch:
    return Launch(grid=tuple(given["grid"]), block=tuple(given["block"]), shared_bytes=given["shared_bytes"])


if __name__ == "__main__":
    run(Path(sys.argv[1]))
