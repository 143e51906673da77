"""What the profiler runs: one launch of one kernel on its real inputs, in this process, without limits on its time.

``python -m tuner.profiling.target FILE``; the profiler runs the launch several times, a few counters each time.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuner.bench.protocol import BenchSpec
from tuner.kernels.launch import Launch
from tuner.kernels.render import Rendered
from tuner.problems.registry import problem_of

LIMIT_SECONDS = 600.0


def describe(spec: BenchSpec, rendered: Rendered) -> str:
    """Return the text of the file: device, problem, precision, source and launch."""
    return json.dumps(
        {
            "device": spec.device,
            "problem": [spec.problem.kind, spec.problem.name, spec.problem.sizes],
            "precision": spec.precision,
            "data": None if spec.data is None else str(spec.data.absolute()),
            "source": rendered.source,
            "entry": rendered.entry,
            "launch": asdict(rendered.launch),
        }
    )


def run(path: Path) -> None:
    """Prepare the bench, then launch the kernel once."""
    from tuner.bench.bench import Bench
    from tuner.bench.input_sets import own_inputs
    from tuner.devices import compile_source, open_device
    from tuner.devices.cache import CompileCache

    given = json.loads(path.read_text(encoding="utf-8"))
    data = given["data"] and Path(given["data"])
    problem = problem_of(*given["problem"])
    spec = BenchSpec(device=given["device"], problem=problem, precision=given["precision"], data=data)
    launch = _launch(given["launch"])
    device = open_device(spec.device)
    bench = Bench(device, problem)
    inputs = own_inputs(bench, spec)
    source, machine = given["source"], device.environment
    binary = CompileCache.default().get_or_make(machine, source, lambda: compile_source(machine, source))
    kernel = device.load(binary, given["entry"], launch)
    inputs.place()
    for tensor in problem.inputs:
        if tensor.constant:
            kernel.set_constant(tensor.name, bench.guarded[tensor.name].inner, tensor.nbytes)
    device.synchronize()
    device.timed(kernel, launch, bench.arguments(problem), limit=LIMIT_SECONDS, repeat=1)
    inputs.verify()
    del kernel, inputs, bench
    device.close()


def _launch(given: dict[str, Any]) -> Launch:
    return Launch(grid=tuple(given["grid"]), block=tuple(given["block"]), shared_bytes=given["shared_bytes"])


if __name__ == "__main__":
    run(Path(sys.argv[1]))
