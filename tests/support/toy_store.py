"""A small template, study key and results for tests of the store, the exporter and the dashboard."""

from __future__ import annotations

import dataclasses
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from optuna.storages import RDBStorage

from tuner.kernels.template import Configuration, KernelTemplate, Launch, Parameter
from tuner.problems.conv.layers import LAYERS, ConvLayer
from tuner.results import Costs, Environment, Evaluation, Measurement, Resources, Result, StudyKey
from tuner.storage import Store

SOURCE = """
WEIGHTS_IN_CONSTANT(LAYER_M * LAYER_C * LAYER_K * LAYER_K)
#define H_OUT (LAYER_H - LAYER_K + 1)
#define W_OUT (LAYER_W - LAYER_K + 1)
REQUIRE(TILE_WIDTH * TILE_WIDTH <= 1024, "a block has more threads than the device allows");

__device__ int toy_tiles(int size) { return (size + TILE_WIDTH - 1) / TILE_WIDTH; }

__global__ void conv_forward(GLOBAL const float *__restrict__ x, CONSTANT const float *__restrict__ w,
                             GLOBAL float *__restrict__ y,
                             int B, int C, int H, int W, int M, int K) {
    SHARED_MEMORY(float, tile, TILE_WIDTH * TILE_WIDTH * PADDING);
    const int tiles_w = toy_tiles(W_OUT);
    const int h = (int)(blockIdx.z / tiles_w) * TILE_WIDTH + threadIdx.y;
    const int v = (int)(blockIdx.z % tiles_w) * TILE_WIDTH + threadIdx.x;
    const int b = GRID_LAYOUT == GRID_LAYOUT_B_M ? blockIdx.x : blockIdx.y;
    const int m = GRID_LAYOUT == GRID_LAYOUT_B_M ? blockIdx.y : blockIdx.x;
    tile[threadIdx.y * TILE_WIDTH + threadIdx.x] = 0.0f;
    __syncthreads();
    if (b >= B || h >= H_OUT || v >= W_OUT) return;
    float sum = tile[threadIdx.y * TILE_WIDTH + threadIdx.x];
    for (int c = 0; c < LAYER_C; c++)
        for (int p = 0; p < LAYER_K; p++)
            UNROLLED(LAYER_K)
            for (int q = 0; q < LAYER_K; q++)
                sum = fmaf(x[((b * LAYER_C + c) * LAYER_H + h + p) * LAYER_W + v + q],
                           CONSTANT_WEIGHTS(w)[((m * LAYER_C + c) * LAYER_K + p) * LAYER_K + q], sum);
    y[((b * LAYER_M + m) * H_OUT + h) * W_OUT + v] = sum;
}
"""


@contextmanager
def sql(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store as any other program would; what was written is committed, and the connection closed."""
    with closing(sqlite3.connect(path)) as db, db:
        yield db


@contextmanager
def plain_optuna(path: Path) -> Iterator[RDBStorage]:
    """Open a store as a script with nothing but Optuna would, and close it: Optuna itself leaves that to the end."""
    storage = RDBStorage(f"sqlite:///{path}")
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def toy_launch(p: Any, layer: ConvLayer) -> Launch:
    side: int = p.TILE_WIDTH
    tiles = -(-layer.H_out // side) * -(-layer.W_out // side)
    images_first = p.GRID_LAYOUT == "B,M"
    grid = (layer.B, layer.M, tiles) if images_first else (layer.M, layer.B, tiles)
    return Launch(grid=grid, block=(side, side, 1), shared_bytes=side * side * p.PADDING * 4)


TOY = KernelTemplate(
    name="toy",
    idea="one thread computes one output",
    source=SOURCE,
    parameters=(
        Parameter(name="TILE_WIDTH", choices=(8, 16, 32), doc="block side"),
        Parameter(name="GRID_LAYOUT", choices=("B,M", "M,B"), doc="which grid dimension walks the images"),
        Parameter(name="PADDING", choices=tuple(range(1, 65)), doc="unused shared memory"),
    ),
    constraints=(),
    launch=toy_launch,
)
OTHER = KernelTemplate(
    name="other",
    idea="another idea",
    source=SOURCE,
    parameters=(
        Parameter(name="TILE_WIDTH", choices=(4, 8), doc="block side"),
        Parameter(name="VECTOR", choices=(1, 2, 4), doc="floats per load"),
    ),
    constraints=(),
    launch=toy_launch,
)
TEMPLATES = (TOY, OTHER)
ENVIRONMENT = Environment(
    device="cpu",
    kind="cpu",
    model="Test CPU",
    driver="PoCL 3.0",
    toolkit="clang 14 -cl-mad-enable",
    arch="skylake",
    host="bench",
    peak_flops=1e12,
    peak_bytes=1e11,
)


def toy_key(layer: str = "sp18/conv2", space: str = "space", batch: int = 100) -> StudyKey:
    sizes = LAYERS[layer].with_batch(batch)
    return StudyKey(
        problem=layer,
        shape=(sizes.B, sizes.C, sizes.H, sizes.W, sizes.M, sizes.K),
        device_kind="cpu",
        device_model="Test CPU",
        precision="fp32",
        protocol="1",
        space_digest=space,
        templates=("toy", "other"),
    )


def toy_configuration(number: int) -> Configuration:
    """Return one of the toy's 384 configurations."""
    widths, layouts, paddings = (parameter.choices for parameter in TOY.parameters)
    values = {
        "TILE_WIDTH": widths[number % 3],
        "GRID_LAYOUT": layouts[number // 3 % 2],
        "PADDING": paddings[number // 6 % 64],
    }
    return TOY.configuration(values)


def toy_ok(number: int, median: float = 1e-3, *, pruned: bool = False, confirmed: bool = False) -> Result:
    rng = random.Random(number)
    noise = [rng.uniform(0, 0.01) for _ in range(5)]
    samples = (*(median * (1 + sign * part) for part in noise for sign in (1, -1)), median)
    return Result(
        configuration=toy_configuration(number),
        fingerprint=f"print-{number}",
        evaluation=Evaluation(
            outcome="ok",
            measurement=Measurement(samples=samples, pruned=pruned, canary=2e-3),
            resources=Resources(registers=40, local_bytes=0, shared_bytes=1024),
            costs=Costs(compile=0.5, check=0.1, measure=0.2),
            max_error=1e-5,
            confirmed=confirmed,
        ),
        started=1_700_000_000.0 + number,
    )


def toy_failure(number: int, outcome: str, text: str = "first line\nsecond line") -> Result:
    return Result(
        configuration=toy_configuration(number),
        fingerprint=f"print-{number}",
        evaluation=Evaluation(outcome=outcome, text=text),
        started=1.0,
    )


def timed(configuration: Configuration, *samples: float, fingerprint: str = "") -> Result:
    """Return a correct result with these samples in seconds."""
    measured = Evaluation(outcome="ok", measurement=Measurement(samples=samples))
    return Result(configuration=configuration, fingerprint=fingerprint, evaluation=measured)


def changed(result: Result, **evaluation: Any) -> Result:
    """Return a result whose evaluation says something else."""
    return dataclasses.replace(result, evaluation=dataclasses.replace(result.evaluation, **evaluation))


def final(number: int, median: float = 1e-3, began: float = 100.0) -> Result:
    """Return a toy result of the finals."""
    return dataclasses.replace(toy_ok(number, median, confirmed=True), settled=began, searched=median)


def fill(path: Path) -> Store:
    store = Store.open(path)
    store.study(toy_key(), ENVIRONMENT, TEMPLATES).record_all([toy_ok(number) for number in range(12)])
    return store
