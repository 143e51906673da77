"""A template in which every choice but the first is broken in its own way; the cure for trusting a tuner blindly."""

import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from tuner.bench.protocol import Task, Verdict
from tuner.bench.worker import Worker
from tuner.devices.compiler import Compiled, Compiler
from tuner.kernels.template import Baseline, Constraint, KernelTemplate, Launch, Parameter
from tuner.problems.conv.layers import ConvLayer

PATIENCE = 300.0  # seconds for what ends by itself: a busy machine may take fifty times what an idle one does
HANGS = 4.0  # for what never ends
OUTCOMES = {
    "none": "ok",
    "off_by_one": "wrong_result",
    "half_written": "wrong_result",
    "first_launch_only": "wrong_result",
    "writes_nan": "wrong_result",
    "returns_at_once": "wrong_result",
    "before_y": "wrong_result",
    "after_y": "wrong_result",
    "megabyte_beyond": "wrong_result",
    "writes_inputs": "wrong_result",
    "wild_pointer": "crashed",
    "endless": "timed_out",
    "hash_error": "compile_error",
    "slow_compile": "timed_out",
    "no_images": "infeasible",
    "too_much_shared": "out_of_resources",
    "other_name": "compile_error",
    "one_less": "compile_error",
    "long_size": "compile_error",
}

SOURCE = """
#define IS(word) (FAULT == FAULT_##word)

#if IS(HASH_ERROR)
#error this configuration cannot be compiled
#endif

#if IS(FIRST_LAUNCH_ONLY)
#ifdef __OPENCL_VERSION__
__attribute__((section(".data"))) __constant int launches = 0;  // OpenCL C 1.2 has no writable program scope
#define LAUNCHES (*(volatile __global int *)(ulong)&launches)
#else
__device__ int launches_word = 0;
#define LAUNCHES launches_word
#endif
#endif

#if IS(OTHER_NAME)
#define conv_forward another_name
#endif
#if IS(ONE_LESS) || IS(LONG_SIZE)
#ifndef __OPENCL_VERSION__
#error CUDA cannot tell what a kernel takes
#endif
#endif
#if IS(LONG_SIZE)
#define SIZE long
#else
#define SIZE int
#endif
#if IS(ONE_LESS)
#define LAST
#else
#define LAST , int K
#endif

__global__ void conv_forward(GLOBAL const float *x, GLOBAL const float *w, GLOBAL float *y, SIZE B, int C, int H, int W,
                             int M LAST)
{
#if IS(ONE_LESS)
    int K = 3;
#endif
    int H_out = H - K + 1, W_out = W - K + 1, n = B * M * H_out * W_out;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if IS(TOO_MUCH_SHARED)
    SHARED_MEMORY(float, huge, SHARED_WORDS);
    huge[threadIdx.x * 1000 + i] = x[0];
    __syncthreads();
    if (huge[K] > 1e30f) return;
#endif
#if IS(RETURNS_AT_ONCE)
    return;
#endif
#if IS(ENDLESS)
    volatile int spin = 1;
    while (spin) spin = 1;
#endif
#if IS(BEFORE_Y)
    if (i == 0) y[-1] = 0.0f;
#endif
#if IS(AFTER_Y)
    if (i == 0) y[n] = 0.0f;
#endif
#if IS(MEGABYTE_BEYOND)
    if (i == 0) y[n + 262144] = 0.0f;
#endif
#if IS(WILD_POINTER)
    y[(1L << 45) + i] = 0.0f;
#endif
    if (i >= n) return;
    int column = i % W_out, row = i / W_out % H_out, m = i / (W_out * H_out) % M, b = i / (W_out * H_out * M);
    float sum = 0.0f;
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++)
                sum += x[((b * C + c) * H + row + p) * W + column + q] * w[((m * C + c) * K + p) * K + q];
#if IS(SLOW_COMPILE)
#define TEN(text) text text text text text text text text text text
    TEN(TEN(TEN(TEN(TEN(sum = sum * sum + 0.5f; sum = sum - 0.25f * sum;)))))  // 200,000 statements
#endif
#if IS(OFF_BY_ONE)
    if (i == n / 3) sum += 0.01f;
#endif
#if IS(WRITES_NAN)
    if (i == n - 1) sum = 0.0f / (sum - sum);
#endif
#if IS(HALF_WRITTEN)
    if (i > n / 2) return;
#endif
#if IS(WRITES_INPUTS)
    if (i == 0) ((GLOBAL float *)w)[0] += 1.0f;
#endif
#if IS(FIRST_LAUNCH_ONLY)
    if (i == 0) LAUNCHES = LAUNCHES + 1;
    if (i == n - 1 && LAUNCHES > 2) sum += 1.0f;
#endif
    y[i] = sum;
}
"""


@contextmanager
def patient() -> Iterator[None]:
    """Give up on what hangs after a few seconds, and on nothing else: one limit for both would catch sound trials."""
    start, submit = Worker.start, Compiler.submit

    def start_patiently(worker: Worker, task: Task, *more: Any) -> "Future[Verdict]":
        worker.trial_timeout = HANGS if _is("ENDLESS", task.rendered.source) else PATIENCE
        return start(worker, task, *more)

    def submit_patiently(compiler: Compiler, source: str, *more: Any) -> "Future[Compiled]":
        compiler.limit = HANGS if _is("SLOW_COMPILE", source) else PATIENCE
        return submit(compiler, source, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "start", start_patiently)
        patch.setattr(Compiler, "submit", submit_patiently)
        yield


def _is(fault: str, source: str) -> bool:
    return re.search(rf"^#define FAULT FAULT_{fault}$", source, re.MULTILINE) is not None


def launch(p: Any, layer: ConvLayer) -> Launch:
    """One thread an output; the broken geometry has no blocks."""
    blocks = 0 if p.FAULT == "no_images" else -(-layer.y_size // p.THREADS)
    shared = 4 * 10**8 if p.FAULT == "too_much_shared" else 0
    return Launch(grid=(blocks, 1, 1), block=(p.THREADS, 1, 1), shared_bytes=shared)


def faulty(*faults: str, threads: tuple[int, ...] = (64,)) -> KernelTemplate:
    """Return the template with these faults among its choices (all of them for none)."""
    return KernelTemplate(
        name="faulty",
        idea="a plain convolution, broken on purpose",
        source="#define SHARED_WORDS 100000000\n" + SOURCE,
        static_memory=True,
        parameters=(
            Parameter(name="FAULT", choices=faults or tuple(OUTCOMES), doc="what is wrong with it"),
            Parameter(name="THREADS", choices=threads, doc="threads a block"),
        ),
        constraints=(
            Constraint(
                "one block size for each fault",
                lambda p, layer, limits: (p.FAULT == "none") | (threads[0] == p.THREADS),
                "only the sound kernel comes in several block sizes",
            ),
        ),
        launch=launch,
        baselines=(Baseline("naive 32x32 (B,M,1)", {}),),
    )
