"""PoCL compiles for a CPU that its LLVM does not know, and for each kind of CPU alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.devices import opencl, pocl

AVX2 = "sse sse2 pni ssse3 cx16 sse4_1 sse4_2 movbe popcnt avx f16c lahf_lm abm fma bmi1 avx2 bmi2"
AVX512 = "avx512f avx512dq avx512cd avx512bw avx512vl"
ZEN_3, ZEN_5 = frozenset(AVX2.split()), frozenset(f"{AVX2} {AVX512}".split())
HERE = Path(__file__).parent
SAXPY = "__kernel void k(__global float *y) { y[get_global_id(0)] = 2.0f * y[get_global_id(0)] + 1.0f; }"


@pytest.mark.parametrize(
    ("name", "flags", "expected"),
    [
        ("generic", ZEN_5, "skylake-avx512"),
        ("generic", ZEN_3, "haswell"),
        ("generic", frozenset({"sse2"}), "x86-64"),
        ("generic", frozenset(), "generic"),
        ("znver3", ZEN_5, "skylake-avx512"),
        ("znver3", ZEN_3, "znver3"),
        ("icelake-server", ZEN_5, "icelake-server"),
    ],
)
def test_cpu_that_llvm_does_not_know_is_the_nearest_it_knows(name: str, flags: frozenset[str], expected: str) -> None:
    assert pocl.better_name(name, flags) == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [("skylake-avx512", 16), ("icelake-server", 16), ("znver3", 8), ("haswell", 8), ("penryn", 4), ("generic", 4)],
)
def test_registers_are_as_wide_as_the_target_allows(name: str, words: int) -> None:
    assert pocl.vector_words(name, 16) == words
    assert pocl.vector_words(name, 4) == 4


def test_cpu_named_in_the_environment_is_compiled_for() -> None:
    if not opencl.target(opencl.find("cpu")):
        pytest.skip("this OpenCL's CPU has no name of LLVM's")
    script = (
        "from tuner.devices import opencl\n"
        f"assert opencl.compile_source('cpu', {SAXPY!r})\n"
        "print(opencl.target(opencl.find('cpu')), opencl.OpenCLDevice('cpu').environment.toolkit)\n"
        "print(opencl.describe(opencl.find('cpu')))"
    )
    for name in ("penryn", "x86-64"):  # code for these runs on any x86-64
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, pocl.TARGET: name},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(name)
        assert f"as {name}" in done.stdout
        assert f"code for {name}, vectors of 4 words" in done.stdout


LISTENING = """
import pyopencl as cl
from tuner.devices import opencl
from tuner.problems.conv.layers import find_layer
from tuner.kernels.loading import builtin_templates
from tuner.kernels.render import render

device, layer = opencl.find("cpu"), find_layer("conv2", 2)
for name, values in (
    ("register_tile", {"TILE_W": 13, "TILE_M": 8, "BLOCK_SHAPE": "1x1", "X_READS": "each", "VECTOR": 2}),
    ("channel_vector", {"VECTOR": 8, "VECTORS": 2, "TILE_W": 5}),
):
    template = builtin_templates()[name]
    source = render(template, template.configuration(values), layer, "opencl").source
    options = [*opencl.OPTIONS, f"-DNATIVE_WORDS={opencl.native_words(device)}"]
    program = cl.Program(cl.Context([device]), source).build(options, cache_dir=False)
    print(name, "ABI" in program.get_build_info(device, cl.program_build_info.LOG))
"""


def test_compiler_has_nothing_to_say_of_vectors_on_a_cpu_without_avx512() -> None:
    if not opencl.target(opencl.find("cpu")):
        pytest.skip("this OpenCL's CPU has no name of LLVM's")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LISTENING],
        env={**os.environ, pocl.TARGET: "haswell", "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["register_tile", "False", "channel_vector", "False"]
