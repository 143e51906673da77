"""A user's own template, as files in a folder, with parts of it to be replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_run import Silent

from tuner.kernels.loading import load_template
from tuner.kernels.template import KernelTemplate
from tuner.problems.conv.layers import find_layer
from tuner.tuning import Report, RunOptions, tune

LAYER = find_layer("C=2,H=12,W=11,M=3,K=3", batch=9)
RULE = "p.THREADS <= limits.max_threads"
PYTHON = """from tuner import Constraint, KernelTemplate, Launch, Parameter, read_source


def launch(p, layer):
    blocks = -(-layer.y_size // p.THREADS)
    return Launch(grid=(blocks, 1, 1), block=(p.THREADS, 1, 1))


TEMPLATE = KernelTemplate(
    name="mine",
    idea="one thread an output",
    source=read_source(__file__),
    parameters=(
        Parameter(name="THREADS", choices=(16, 32, 64), doc="threads a block"),
        Parameter(name="UNROLL", choices=(1, 5), doc="filter terms unrolled"),
    ),
    constraints=(
        Constraint("threads", lambda p, layer, limits: p.THREADS <= limits.max_threads, "too many threads"),
    ),
    launch=launch,
    figures=lambda p, layer: {"threads": p.THREADS},
)
"""

SOURCE = """// One thread an output; threads past the last one end at once.
__global__ void conv_forward(GLOBAL const float *x, GLOBAL const float *w, GLOBAL float *y,
                             int B, int C, int H, int W, int M, int K)
{
    int H_out = H - K + 1, W_out = W - K + 1;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * M * H_out * W_out) return;
    int column = i % W_out, row = i / W_out % H_out, m = i / (W_out * H_out) % M, b = i / (W_out * H_out * M);
    float sum = 0.0f;
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            UNROLLED(UNROLL)
            for (int q = 0; q < K; q++)
                sum += x[((b * C + c) * H + row + p) * W + column + q] * w[((m * C + c) * K + p) * K + q];
    y[i] = sum;
}
"""


def written(folder: Path, *changes: tuple[str, str], source: str = SOURCE) -> Path:
    """Write mine.py, each of ``changes`` replaced in it, and mine.cu; return the .py file."""
    python = PYTHON
    for old, new in changes:
        assert old in python, old
        python = python.replace(old, new)
    (folder / "mine.cu").write_text(source)
    path = folder / "mine.py"
    path.write_text(python)
    return path


def own(folder: Path, *changes: tuple[str, str], source: str = SOURCE) -> KernelTemplate:
    return load_template(written(folder, *changes, source=source))


def run(folder: Path, template: KernelTemplate, **more: Any) -> tuple[Report, list[str]]:
    observer = Silent()
    options: dict[str, Any] = {
        "problem": LAYER,
        "device": "cpu",
        "templates": (template,),
        "sampler": "grid",
        "jobs": 1,
    }
    storage = f"sqlite:///{folder}/tuner.db"
    return tune(RunOptions(**(options | {"storage": storage} | more)), observer), observer.lines
