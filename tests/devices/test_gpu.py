"""What only a GPU can show: what a check costs, how fast a lost worker is back, what a header does, odd shapes."""

from __future__ import annotations

import statistics
import subprocess

import pytest

from tuner.bench.protocol import BenchSpec
from tuner.bench.worker import Worker
from tuner.devices import compile_source, open_device
from tuner.devices.cuda_driver import arch_of, driver
from tuner.errors import CompileError
from tuner.export.cuda import target
from tuner.export.export import export_best
from tuner.kernels.loading import builtin_templates
from tuner.kernels.subspace import Restriction
from tuner.problems.conv.layers import ConvLayer, find_layer
from tuner.tuning import Observer, RunOptions, tune

pytestmark = pytest.mark.gpu
LAYER = find_layer("sp18/conv2")


def test_fresh_worker_measures_like_the_one_before_the_fault():
    """How soon it is ready, and what a check costs, is held to a limit by ``tests/benchmarks/limits.py``."""
    with Worker(BenchSpec(device="cuda:0", problem=LAYER)) as worker:
        before = statistics.median(worker.health())
        worker.replace()
        after = statistics.median(worker.health())
        assert abs(after / before - 1) < 0.2


def test_exported_header_compiles_and_is_right_on_the_gpu(tmp_path):
    """The exporter runs the winner once more; nvcc must take the header as it is."""
    templates = tuple(builtin_templates().values())
    store = f"sqlite:///{tmp_path}/t.db"
    options = RunOptions(
        problem=find_layer("conv2", 500),
        device="cuda:0",
        templates=templates,
        storage=store,
        sampler="random",
        trials=30,
    )
    report = tune(options, Observer())
    assert report.winner is not None
    done = export_best(report.progress.study, tmp_path / "conv2_best.h", store, templates)
    (tmp_path / "use.cu").write_text('#include "conv2_best.h"\nint main() { return 0; }\n')
    arch = arch_of(*driver().Device(0).compute_capability())
    subprocess.run(["nvcc", *target(arch).split(), "-c", "use.cu", "-o", "use.o"], cwd=tmp_path, check=True)
    assert done.evaluation.confirmed


def test_a_kernel_with_words_beyond_the_short_header_compiles():
    device = open_device("cuda:0")
    source = "__global__ void conv_forward(float *y) { y[threadIdx.x] = __expf(min(y[0], 1.0f)) + atomicAdd(y, 1.0f); }"
    try:
        assert compile_source(device.environment, source)
        with pytest.raises(CompileError, match="undefined"):
            compile_source(device.environment, source.replace("min", "no_such_word"))
    finally:
        device.close()


def all_right(template, sizes, precision, folder, **only):
    """Try random configurations of a template, or of a part of its space; every element of each is compared."""
    B, C, H, W, M, K = sizes
    options = RunOptions(
        problem=ConvLayer(name="custom", B=B, C=C, H=H, W=W, M=M, K=K),
        device="cuda:0",
        templates=(builtin_templates()[template],),
        storage=f"sqlite:///{folder}/odd.db",
        sampler="random",
        seed=sum(sizes),
        trials=16,
        precision=precision,
        only=Restriction(allowed=tuple(only.items())),
    )
    report = tune(options, Observer())
    assert report.progress.trials == 16
    assert [str(each) for each in report.failed] == []


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "sizes",
    [
        (7, 1, 12, 27, 13, 5),  # B, C, H, W, M, K: rows that do not end with the shifts of a product
        (10, 1, 33, 40, 6, 7),
        (5, 1, 28, 28, 50, 5),
        (3, 32, 19, 23, 37, 3),
        (2, 64, 14, 14, 20, 11),
        (9, 6, 21, 18, 7, 4),
        (3, 512, 5, 9, 66, 1),
    ],
    ids=str,
)
def test_tensor_core_is_right_on_odd_shapes(sizes, precision, tmp_path):
    all_right("tensor_core", sizes, precision, tmp_path)


@pytest.mark.parametrize("only", [{"PREFETCH": (256, 512)}, {"WEIGHTS": ("registers",)}], ids=str)
@pytest.mark.parametrize(
    "sizes", [(1037, 1, 27, 29, 50, 5), (2051, 1, 13, 25, 20, 3), (1029, 2, 11, 13, 36, 3)], ids=str
)
def test_bursts_of_x_and_weights_in_registers_are_right_on_odd_shapes(sizes, only, tmp_path):
    all_right("tensor_core", sizes, "fp32", tmp_path, **only)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize(
    "sizes",
    [
        (33, 24, 19, 37, 52, 4),  # rows that do not end with the shifts of a product
        (5, 20, 23, 17, 9, 1),
        (3, 70, 40, 11, 70, 5),  # the last part of the channels is not full
        (129, 9, 7, 7, 130, 7),  # one pixel a channel
    ],
    ids=str,
)
def test_warpgroup_is_right_on_odd_shapes(sizes, precision, tmp_path):
    device = open_device("cuda:0")
    device.close()
    if device.limits.capability != 90:
        pytest.skip("warpgroups multiply on sm_90a alone")
    all_right("warpgroup", sizes, precision, tmp_path)
