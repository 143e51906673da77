"""What a kernel uses of its device, and its counters: occupancy as NVIDIA counts it, what ncu says and its absence."""

from __future__ import annotations

import ctypes
import json
import random
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_run import LAYER
from toy_store import ENVIRONMENT, TEMPLATES, changed, toy_key, toy_ok

from tuner.bench.protocol import BenchSpec
from tuner.cli import _run
from tuner.devices.compiler import Compiler, _compile
from tuner.devices.nvcc import OPTIONS, WARN_SPILLS, compile_with_spills, short_header, spilled_bytes
from tuner.devices.occupancy import Multiprocessor, occupancy, resident_blocks
from tuner.errors import TunerError
from tuner.kernels.loading import builtin_templates
from tuner.kernels.render import render
from tuner.kernels.template import OPENCL
from tuner.profiling import find_ncu, profile
from tuner.profiling.ncu import METRICS, read_csv
from tuner.results import Resources
from tuner.storage import Store

REFERENCE = Path(__file__).parents[1] / "support" / "occupancy_reference.cpp"
HEADER = Path("/usr/local/cuda/include/cuda_occupancy.h")
H100 = Multiprocessor(threads=2048, blocks=32, registers=65536, block_registers=65536, shared_bytes=228 << 10)
A100 = replace(H100, shared_bytes=164 << 10)
AMPERE_86 = replace(H100, threads=1536, blocks=16, shared_bytes=100 << 10)
HEAD = '"ID","Process ID","Process Name","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'


def test_occupancy_of_kernels_known_by_hand():
    assert resident_blocks(H100, threads=256, registers=32, shared_bytes=0) == 8
    assert occupancy(H100, threads=256, registers=32, shared_bytes=0) == 1.0
    assert occupancy(H100, threads=256, registers=128, shared_bytes=0) == 0.25
    assert resident_blocks(H100, threads=256, registers=32, shared_bytes=100_000) == 2
    assert resident_blocks(H100, threads=1024, registers=65, shared_bytes=0) == 0
    assert occupancy(H100, threads=33, registers=16, shared_bytes=0) == 1.0


@pytest.mark.skipif(not HEADER.exists(), reason=f"the CUDA toolkit's {HEADER} is not here")
def test_occupancy_is_what_nvidia_calculates(tmp_path):
    program = tmp_path / "reference"
    subprocess.run(["g++", f"-I{HEADER.parent}", str(REFERENCE), "-o", str(program)], check=True)
    rng = random.Random(1)
    cards = {(9, 0): H100, (8, 0): A100, (8, 6): AMPERE_86, (10, 0): H100}
    cases = [
        (card, rng.randint(1, 1024), rng.randint(16, 255), rng.choice((0, rng.randint(1, 98 << 10))))
        for card in cards
        for _ in range(2000)
    ]
    asked = "\n".join(f"{major} {minor} {a} {b} {c}" for (major, minor), a, b, c in cases)
    answers = subprocess.run([str(program)], input=asked, capture_output=True, text=True, check=True).stdout.split()
    ours = [resident_blocks(cards[card], *use) for card, *use in cases]
    wrong = [
        (case, our, int(answer)) for case, our, answer in zip(cases, ours, answers, strict=True) if our != int(answer)
    ]
    assert wrong == []
    assert len(set(ours)) > 8


def test_occupancy_is_stored_and_shown(tmp_path, capsys):
    used = Resources(registers=96, local_bytes=16, shared_bytes=20_480, occupancy=0.3125, spill_bytes=0)
    store = tmp_path / "t.db"
    with Store.open(store) as opened:
        handle = opened.study(toy_key(), ENVIRONMENT, TEMPLATES)
        handle.record(replace(changed(toy_ok(1, confirmed=True), resources=used), settled=1.0))
        handle.set_winner(toy_ok(1).configuration)
        assert handle.results()[0].resources == used
    assert _run(["show", "conv2", "--storage", str(store)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "registers 96, shared 20,480 bytes, local 16 bytes, spilled 0 bytes, occupancy 31%" in shown
    assert _run(["show", "conv2", "--storage", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trials"][0]["occupancy"] == 0.3125


SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) conv_forward(float *y, int n)
{
    float a[64];
#pragma unroll
    for (int i = 0; i < 64; i++) a[i] = y[i * n + threadIdx.x];
    for (int k = 0; k < n; k++)
#pragma unroll
        for (int i = 0; i < 64; i++) a[i] = a[i] * a[(i + 7) % 64] + 1.0f;
#pragma unroll
    for (int i = 0; i < 64; i++) y[i * n + threadIdx.x] = a[i];
}
"""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_spills_are_read_from_what_the_compiler_says(tmp_path):
    source = tmp_path / "spill.cu"
    logs = []
    for text in (SPILLING, SPILLING.replace("1024, 2", "128, 1")):
        source.write_text(text)
        command = ["nvcc", "-cubin", "-arch=sm_90", *OPTIONS, *WARN_SPILLS, str(source), "-o", str(tmp_path / "out")]
        logs.append(subprocess.run(command, capture_output=True, text=True, check=True).stderr)
    assert spilled_bytes(logs[0]) > 100
    assert (logs[1], spilled_bytes(logs[1])) == ("", 0)


@pytest.mark.parametrize(
    ("release", "enough", "headers"),
    [("cuda_13.0", True, ["short"]), ("cuda_13.0", False, ["short", "whole"]), ("cuda_11.8", True, ["whole"])],
    ids=["known toolkit", "a word that the short header lacks", "unknown toolkit"],
)
def test_compilation_by_pycuda_gives_binary_and_spills(monkeypatch, release, enough, headers):
    """PyCUDA's own way to pass on what nvcc says is a warning."""
    seen = []

    def compiled(source, options, arch, **more):
        assert (source, arch) == ("source", "sm_90")
        assert list(WARN_SPILLS) == options[2:4]
        seen.append("short" if options[4:] == short_header() else "whole")
        assert seen[-1] == "short" or len(options) == 4
        if seen[-1] == "short" and not enough:
            raise OSError
        warnings.warn(
            "The CUDA compiler succeeded, but said:\n... 24 bytes spill stores, 8 bytes spill loads", stacklevel=2
        )
        return b"cubin"

    monkeypatch.setattr("tuner.devices.nvcc.toolkit", lambda: f"Build {release}.r13.0/compiler.1_0")
    monkeypatch.setitem(sys.modules, "pycuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "pycuda.compiler", SimpleNamespace(compile=compiled))
    monkeypatch.setitem(sys.modules, "pycuda.driver", SimpleNamespace(CompileError=OSError))
    assert compile_with_spills("sm_90", "source") == (b"cubin", 24)
    assert seen == headers


def test_spills_are_kept_with_the_cached_binary(tmp_path, monkeypatch):
    monkeypatch.setattr("tuner.devices.compile_with_spills", lambda environment, source: (b"binary", 24))
    monkeypatch.setenv("TUNER_CACHE_DIR", str(tmp_path))
    fresh = _compile(ENVIRONMENT, "source", 5.0)
    compiler = Compiler(ENVIRONMENT, 1)
    try:
        cached = compiler.submit("source").result()
    finally:
        compiler.close()
    assert (fresh.spill_bytes, cached.spill_bytes, cached.binary, cached.seconds) == (24, 24, b"binary", 0.0)


# --- counters ----------------------------------------------------------------------------------------------------


def csv_of(values: dict[str, str]) -> str:
    rows = [
        f'"0","7","python","conv_forward","Command line profiler metrics","{m}","byte","{v}"' for m, v in values.items()
    ]
    return "\n".join(["==PROF== Connected to process 7", HEAD, *rows])


def test_counters_are_read_by_name_in_the_stated_order():
    given = {metric: f"{1000 + place:,}.5" for place, metric in enumerate(reversed(METRICS.values()))}
    given["launch__registers_per_thread"] = "n/a"
    counters = read_csv(csv_of(given).splitlines())
    assert [counter.name for counter in counters] == list(METRICS)
    by_name = {counter.name: counter.value for counter in counters}
    assert by_name["time"] == 1000 + len(METRICS) - 1 + 0.5
    assert by_name["registers a thread"] == "n/a"
    assert read_csv(["==ERROR== nothing"]) == []


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch):
    """A stand-in for ncu that runs its target, keeps its arguments, and prints what it is told."""

    def make(output: str, code: int = 0, target: bool = False) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "ncu"
        (tmp_path / "output").write_text(output)
        script.write_text(
            f"#!{sys.executable}\nimport subprocess, sys\nfrom pathlib import Path\n"
            f"at = sys.argv.index({sys.executable!r})\n"
            f"Path({str(tmp_path / 'given')!r}).write_text(' '.join(sys.argv[1:at]))\n"
            f"if {target}: subprocess.run(sys.argv[at:], check=True)\n"
            f"print(Path({str(tmp_path / 'output')!r}).read_text()); sys.exit({code})\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        return tmp_path / "given"

    return make


def naive():
    template = builtin_templates()["direct"]
    return render(template, template.configuration({}), LAYER, OPENCL)


def test_profiler_runs_the_one_kernel_on_its_inputs(ncu):
    given = ncu(csv_of(dict.fromkeys(METRICS.values(), "12")), target=True)
    counters = profile(BenchSpec(device="cpu", problem=LAYER), naive())
    assert [counter.value for counter in counters] == [12.0] * len(METRICS)
    arguments = given.read_text()
    assert "--csv" in arguments
    assert "--kernel-name conv_forward --launch-count 1" in arguments
    assert METRICS["SM throughput"] in arguments


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission", 1, "ERR_NVGPUCTRPERM - no permission; run as root"),
        ("==PROF== x\n==ERROR== The application returned an error code (11).", 11, "returned an error code (11)"),
        ("==WARNING== No kernels were profiled.", 0, "No kernels were profiled"),
    ],
)
def test_failed_profile_is_one_line_with_the_profilers_words(ncu, output, code, words):
    ncu(output, code)
    with pytest.raises(TunerError) as caught:
        profile(BenchSpec(device="cpu", problem=LAYER), naive())
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_profiler_is_one_line_that_names_what_to_install(tmp_path, monkeypatch, capsys):
    store = tmp_path / "t.db"
    with Store.open(store) as opened:
        handle = opened.study(toy_key(), replace(ENVIRONMENT, kind="cuda", device="cuda:0"), TEMPLATES)
        handle.record(toy_ok(1))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _run(["replay", "conv2", "0", "--profile", "--storage", str(store)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "install NVIDIA Nsight Compute" in err


def test_profile_of_a_study_on_a_cpu_is_refused(tmp_path, capsys):
    store = tmp_path / "t.db"
    with Store.open(store) as opened:
        opened.study(toy_key(), ENVIRONMENT, TEMPLATES).record(toy_ok(1))
    assert _run(["replay", "conv2", "0", "--profile", "--storage", str(store)]) == 2
    assert "ncu reads NVIDIA GPUs" in capsys.readouterr().err


# --- on a GPU ----------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_occupancy_is_what_the_driver_calculates():
    from tuner.devices import compile_source, open_device
    from tuner.devices.cuda import CudaDevice
    from tuner.kernels.template import CUDA

    device, driver = open_device("cuda:0"), ctypes.CDLL("libcuda.so.1")
    if device.limits.capability < 80:
        pytest.skip("occupancy is known from sm_80 on")
    try:
        template = builtin_templates()["direct"]
        for shape in ("32x32", "32x8", "64x1", "1024x1"):
            rendered = render(template, template.configuration({"BLOCK_SHAPE": shape}), LAYER, CUDA)
            binary = compile_source(device.environment, rendered.source)
            kernel = device.load(binary, rendered.entry, rendered.launch)
            module, function, blocks = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
            assert driver.cuModuleLoadData(ctypes.byref(module), binary) == 0
            assert driver.cuModuleGetFunction(ctypes.byref(function), module, rendered.entry.encode()) == 0
            threads = rendered.launch.block[0] * rendered.launch.block[1]
            size = ctypes.c_size_t(rendered.launch.shared_bytes)
            ask = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
            assert ask(ctypes.byref(blocks), function, threads, size) == 0
            assert isinstance(device, CudaDevice)
            assert device._multiprocessor is not None
            warps = device._multiprocessor.threads // 32
            assert kernel.resources.occupancy == pytest.approx(blocks.value * -(-threads // 32) / warps)
            del kernel
    finally:
        device.close()


@pytest.mark.gpu
def test_counters_of_the_naive_kernel(tmp_path):
    try:
        find_ncu()
    except TunerError as error:
        pytest.skip(str(error))
    from tuner.kernels.template import CUDA

    template = builtin_templates()["direct"]
    layer = LAYER.with_batch(2000)
    counters = profile(
        BenchSpec(device="cuda:0", problem=layer), render(template, template.configuration({}), layer, CUDA)
    )
    by_name = {counter.name: counter.value for counter in counters}
    print(by_name)
    assert set(by_name) == set(METRICS)
    assert float(by_name["registers a thread"]) >= 16
    assert 0 < float(by_name["achieved occupancy"]) <= 100
