"""The exported header: it compiles, alone and beside another, and launches what was measured."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from toy_store import ENVIRONMENT, TOY, toy_configuration, toy_failure, toy_ok

from tuner.devices import open_device, opencl
from tuner.devices.cuda_driver import arch_of, driver
from tuner.errors import StorageError, UsageError
from tuner.export import Winner, render_header, render_split, write_header
from tuner.export.cuda import target
from tuner.export.geometry import find_geometry
from tuner.kernels.arithmetic import smaller, up
from tuner.kernels.calling import Home
from tuner.kernels.loading import builtin_templates
from tuner.kernels.space import enumerate_template
from tuner.kernels.template import CUDA, Configuration, KernelTemplate, Launch
from tuner.problems.conv.layers import LAYERS, ConvLayer, find_layer
from tuner.results import Environment

CUDA_ENVIRONMENT = dataclasses.replace(
    ENVIRONMENT, device="cuda:0", kind="cuda", model="NVIDIA H200", driver="570.1", toolkit="nvcc 13.0", arch="sm_90a"
)
FOR_CUDA = sorted(name for name, template in builtin_templates().items() if CUDA in template.dialects)
NVCC = ("nvcc", "-gencode", "arch=compute_90a,code=sm_90a")
BATCHES = (1, 2, 7, 8, 9, 33, 100, 10_000, 70_001, 100_000)
needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not installed")
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")


def winner(
    layer: str = "sp18/conv2",
    environment: Environment = CUDA_ENVIRONMENT,
    template: KernelTemplate = TOY,
    configuration: Configuration | None = None,
) -> Winner:
    valid = template.baselines[0].values if template.baselines else {}
    result = dataclasses.replace(
        toy_ok(3, 1e-3, confirmed=True), configuration=configuration or template.configuration(valid)
    )
    return Winner(
        result=result,
        problem=find_layer(layer),
        environment=environment,
        template=template,
        study=f"{layer} study",
        trial=42,
        command=f"tune run --layer {layer}",
        tolerance=1e-4,
        naive_seconds=8e-3,
        options="-cl-std=CL1.2 -cl-mad-enable",
    )


def compiled(folder: Path, name: str, text: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Write a source file and compile it; a failure shows the compiler's words."""
    (folder / name).write_text(text)
    done = subprocess.run([*command, name], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done


def header(folder: Path, name: str, wanted: Winner) -> str:
    write_header(folder / name, render_header(wanted))
    return (folder / name).read_text()


def full(text: str, batch: int = 10_000, device: str = "sm90a") -> str:
    """Write a header's names out in a test's text: ``sp18_conv2_`` is short for ``sp18_conv2_fp32_b10000_sm90a_``."""
    names = f"fp32_b{batch}_{device}"
    text = re.sub(r"\b((?:sp18|fa19)_conv2|fa18_conv1|c8h32w48m32k3)_", rf"\1_{names}_", text)
    return re.sub(r"\b((?:SP18|FA19)_CONV2|FA18_CONV1|C8H32W48M32K3)_", rf"\1_{names.upper()}_", text)


# What it says


def test_header_says_where_it_comes_from() -> None:
    text = render_header(winner())
    for needed in (
        "sp18/conv2 forward",
        "1 ms (median of 11 launches, 95% interval",
        "8 times over the naive kernel (8 ms)",
        "at most 1e-05, allowed 0.0001",
        "NVIDIA H200, driver 570.1, sm_90a",
        "trial 42",
        "tune run --layer sp18/conv2",
        '#define SP18_CONV2_PRECISION "fp32"',
        "#define SP18_CONV2_TILE_WIDTH 8",
        '#define SP18_CONV2_GRID_LAYOUT "B,M"',
        "#ifndef SP18_CONV2_FORWARD_H",
    ):
        assert full(needed) in text


def test_header_names_its_own_file_in_its_example() -> None:
    for environment in (ENVIRONMENT, CUDA_ENVIRONMENT):
        text = render_header(dataclasses.replace(winner(environment=environment), file="conv2_best.h"))
        assert '//     #include "conv2_best.h"' in text


def test_header_of_own_layer_has_a_prefix_of_its_own() -> None:
    text = render_header(winner("C=8,H=32,W=48,M=32,K=3"))
    assert full("#define C8H32W48M32K3_W_OUT 46") in text


@pytest.mark.parametrize("wrong", [toy_failure(0, "wrong_result"), toy_ok(0, pruned=True)], ids=["failed", "pruned"])
def test_result_without_a_full_measurement_is_not_exported(wrong: object) -> None:
    with pytest.raises(UsageError, match="is not a full result"):
        render_header(dataclasses.replace(winner(), result=wrong))  # type: ignore[arg-type]


@needs_nvcc
@pytest.mark.parametrize("operands", ["fp16x3", "bf16"])
def test_header_on_tensor_cores_says_how_it_multiplies_and_for_which_arch(tmp_path: Path, operands: str) -> None:
    template = builtin_templates()["tensor_core"]
    chosen = template.configuration({"MMA_TYPE": operands, "TILE_M": 16, "BLOCK_SHAPE": "128x1", "IMAGES": 2})
    text = header(tmp_path, "h.h", winner(template=template, configuration=chosen))
    assert f"float32 in memory, multiplied as {operands} on tensor cores." in text
    assert "float32.\n" in render_header(winner())
    assert f"{' '.join(NVCC)} -c" in text
    compiled(tmp_path, "use.cu", '#include "h.h"\n', *NVCC, "-c", "-o", "use.o")


# Geometry


def launching(grid: Callable[[int], tuple[int, int, int]]) -> KernelTemplate:
    return dataclasses.replace(TOY, launch=lambda p, layer: Launch(grid=grid(layer.B), block=(32, 1, 1)))


def capped(B: int) -> int:
    least: int = smaller(up(B * 26, 32), 65_535)
    return least


@pytest.mark.parametrize(
    ("grid", "text", "words"),
    [
        (lambda B: B, "(B)", "B"),
        (lambda B: 16, "16", "16"),
        (lambda B: 16 * B, "(16 * (B))", "16 * B"),
        (lambda B: -(-B // 8), "(((B) + 7) / 8)", "ceil(B / 8)"),
        (lambda B: (B + 7) // 8, "(((B) + 7) / 8)", "floor((B + 7) / 8)"),
        (lambda B: math.ceil(B / 8), "(((B) + 7) / 8)", "ceil(B / 8)"),
        (lambda B: 6 * -(-B // 4), "(6 * (((B) + 3) / 4))", "6 * ceil(B / 4)"),
        (lambda B: B // 32 + 1, "(((B) / 32) + 1)", "floor(B / 32) + 1"),
        (lambda B: up(up(B, 2) * 3, 19), "(((3 * (((B) + 1) / 2)) + 18) / 19)", "ceil(3 * ceil(B / 2) / 19)"),
        (capped, None, "min(ceil(26 * B / 32), 65535)"),
        (lambda B: smaller(1024, B), "((B) < 1024 ? (B) : 1024)", "min(B, 1024)"),
    ],
)
def test_grid_rule_is_the_templates_own_arithmetic(grid: Callable[[int], int], text: str | None, words: str) -> None:
    template = launching(lambda B: (grid(B), 3, 1))
    found = find_geometry(template, TOY.configuration({}), LAYERS["sp18/conv2"])
    assert found.rules, found.why
    assert found.rules[0].text() == (text or found.rules[0].text())
    assert found.rules[0].words() == words
    assert [found.at(B).grid[0] for B in BATCHES] == [grid(B) for B in BATCHES]


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        (lambda B: B.bit_length(), "bit_length"),
        (lambda B: min(B, 1024), "write smaller(a, b) for min"),
        (lambda B: B if B % 2 else 2 * B, "%"),
        (lambda B: 200_000 - B, "fewer blocks"),
        (lambda B: 7 if B == 10_000 else 8, "differs from batch to batch"),
        (lambda B: {1: 5}.get(B, 8) if isinstance(B, int) else 8, "for B = 1 the launch is another"),
    ],
)
def test_grid_that_only_a_number_decides_has_no_rule_and_says_why(grid: Callable[[int], int], why: str) -> None:
    template = launching(lambda B: (grid(B), 3, 1))
    found = find_geometry(template, TOY.configuration({}), LAYERS["sp18/conv2"])
    assert found.rules is None
    assert why in found.why
    assert found.launch.grid == (grid(10_000), 3, 1)


def test_header_without_a_rule_is_for_its_batch_alone() -> None:
    text = render_header(winner(template=launching(lambda B: (B.bit_length(), 1, 1))))
    assert "for B = 10000 and no other" in text
    assert "has no attribute 'bit_length'" in text
    assert full("#define SP18_CONV2_MIN_B 10000\n#define SP18_CONV2_MAX_B 10000 ") in text


@needs_gcc
@pytest.mark.parametrize("name", sorted(builtin_templates()))
def test_macros_give_the_templates_own_geometry(name: str, tmp_path: Path) -> None:
    """Compiled as C without nvcc: the macros and nothing else are there."""
    template = builtin_templates()[name]
    configurations = [template.configuration(baseline.values) for baseline in template.baselines]
    for number, configuration in enumerate(configurations or [template.configuration({})]):
        folder = tmp_path / str(number)
        folder.mkdir()
        header(folder, "conv2.h", winner(template=template, configuration=configuration))
        program = (
            '#include <stdio.h>\n#include "conv2.h"\nint main(void) { int B;\nwhile (scanf("%d", &B) == 1) printf('
        )
        program += (
            '"%d %d %d\\n", SP18_CONV2_LAUNCH_GRID_X(B), SP18_CONV2_LAUNCH_GRID_Y(B), SP18_CONV2_LAUNCH_GRID_Z(B)'
        )
        compiled(folder, "grid.c", full(program) + ");\nreturn 0; }\n", "gcc", "-std=c99", "-Wall", "-Wextra")
        asked = "\n".join(map(str, BATCHES))
        done = subprocess.run([folder / "a.out"], input=asked, capture_output=True, text=True, check=True, timeout=300)
        given = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        layer = LAYERS["sp18/conv2"]
        assert given == [template.launch_of(configuration, layer.with_batch(B)).grid for B in BATCHES], configuration


# CUDA


@needs_nvcc
@pytest.mark.parametrize("name", ["toy", *FOR_CUDA])
def test_two_headers_compile_in_one_file(name: str, tmp_path: Path) -> None:
    template = {"toy": TOY, **builtin_templates()}[name]
    header(tmp_path, "one.h", winner("fa19/conv2" if name == "warpgroup" else "sp18/conv2", template=template))
    header(tmp_path, "two.h", winner("fa18/conv1"))
    text = "#define TILE 1\n#define GLOBAL 7\n#define B 3\n#define error 2\n"
    text += '#include "one.h"\n#include "two.h"\n#include "one.h"\n'
    text += "int run(const float *x, const float *w, float *y) {\n"
    text += "    return sp18_conv2_forward_launch(x, w, y, 5, 0) + fa18_conv1_forward_launch(x, w, y, 5, 0);\n}\n"
    text = text.replace("sp18_conv2", "fa19_conv2") if name == "warpgroup" else text
    text += "#if TILE != 1 || GLOBAL != 7 || B != 3 || error != 2\n#error a word of the program is lost\n#endif\n"
    text += "#if defined SHARED || defined TILE_WIDTH || defined LAYER_C || defined COPY || defined UNROLL\n"
    text += "#error a word is left over\n#endif\n"
    compiled(tmp_path, "both.cu", full(text), *NVCC, "-c")


@needs_nvcc
def test_header_in_two_files_links_with_static_linkage(tmp_path: Path) -> None:
    header(tmp_path, "one.h", winner(configuration=toy_configuration(383)))  # 256 KB of shared memory: needs consent
    assert "cudaFuncAttributeMaxDynamicSharedMemorySize" in (tmp_path / "one.h").read_text()
    text = full('#define SP18_CONV2_LINKAGE static\n#include "one.h"\n')
    use = full("(const float *x, float *y) { return sp18_conv2_forward_launch(x, x, y, 5, 0); }\n")
    (tmp_path / "a.cu").write_text(f"{text}int a{use}")
    compiled(tmp_path, "b.cu", f"{text}int b{use}int main() {{ return 0; }}\n", *NVCC, "a.cu")


@needs_nvcc
def test_headers_of_two_precisions_batches_and_devices_are_in_one_program(tmp_path: Path) -> None:
    other = dataclasses.replace(CUDA_ENVIRONMENT, arch="sm_80")
    wanted = {
        "one.h": winner(),
        "two.h": dataclasses.replace(winner(), precision="tf32"),
        "three.h": dataclasses.replace(winner(), problem=LAYERS["sp18/conv2"].with_batch(7)),
        "four.h": winner(environment=other),
        "five.h": winner(environment=ENVIRONMENT),
    }
    for name, each in wanted.items():
        header(tmp_path, name, each)
    assert len({each.prefix for each in wanted.values()}) == 5
    text = "".join(f'#include "{name}"\n' for name in wanted)
    text += "int run(const float *x, float *y) {\n    return " + " + ".join(
        f"{each.entry}_launch(x, x, y, 5, 0)" for name, each in wanted.items() if name != "five.h"
    )
    compiled(tmp_path, "all.cu", f"{text};\n}}\n", *NVCC, "-c")


def own_kernel() -> KernelTemplate:
    return dataclasses.replace(TOY, name="mine", home=Home(path=Path("/somewhere/mine.py")))


def test_header_of_an_own_template_begins_with_its_name() -> None:
    assert winner(template=own_kernel()).entry == "mine_sp18_conv2_fp32_b10000_sm90a_forward"
    assert winner(environment=ENVIRONMENT).prefix == "SP18_CONV2_FP32_B10000_CPU"


@needs_gcc
def test_two_headers_of_one_name_that_differ_are_an_error(tmp_path: Path) -> None:
    for environment, folder in ((CUDA_ENVIRONMENT, "cuda"), (ENVIRONMENT, "cpu")):
        (tmp_path / folder).mkdir()
        header(tmp_path / folder, "one.h", winner(environment=environment))
        header(tmp_path / folder, "two.h", winner(environment=environment, configuration=toy_configuration(5)))
        (tmp_path / folder / "both.c").write_text('#include "one.h"\n#include "one.h"\n#include "two.h"\n')
        command = ["gcc", "-std=c99", "-c", "both.c"]
        done = subprocess.run(command, cwd=tmp_path / folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode != 0
        assert done.stderr.count("error:") == 1
        assert "two different headers of SP18_CONV2_FP32_B10000" in done.stderr


CPP = """
#include "one.h"
static_assert(SP18_CONV2_FITS(6, 30, 30, 16, 5) == WIDTH, "another layer");
static_assert(SP18_CONV2_X_SIZE(2) == 2 * 6 * 30 * 30 && SP18_CONV2_Y_SIZE(2) == 2 * 16 * 26 * 26, "sizes");
int main() { return sp18_conv2_forward_launch(nullptr, nullptr, nullptr, SP18_CONV2_MIN_B - 1, nullptr) == 1 ? 0 : 1; }
"""


@needs_nvcc
@pytest.mark.parametrize("split", [False, True], ids=["alone", "split"])
@pytest.mark.parametrize("includes", [True, False], ids=["cuda's header", "without"])
def test_launcher_is_called_from_a_cpp_file(split: bool, includes: bool, tmp_path: Path) -> None:
    """The launcher refuses fewer images than it may have, before it needs a device."""
    wanted = dataclasses.replace(winner(), file="one.h")
    if split:
        text, kernel = render_split(wanted)
        (tmp_path / "one.h").write_text(text)
        assert "__global__" not in text
    else:
        header(tmp_path, "one.h", wanted)
        kernel = '#include "one.h"\n'
    compiled(tmp_path, "one.cu", kernel, *NVCC, "-c", "-o", "one.o")
    program = full(CPP).replace("WIDTH", "true" if includes else "1")
    more = [f"-I{include_folder()}"] if includes else []
    compiled(tmp_path, "main.cpp", program, "g++", "-std=c++17", "-Wall", "-Wextra", *more, "-c", "-o", "main.o")
    subprocess.run(["nvcc", "one.o", "main.o", "-o", "a.out"], cwd=tmp_path, check=True, timeout=300)
    assert subprocess.run([tmp_path / "a.out"], check=False, timeout=300).returncode == 0


def include_folder() -> str:
    """Return where CUDA's headers lie, as nvcc says it."""
    command = ["nvcc", "--dryrun", "-x", "cu", "-c", "/dev/null"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stderr
    found = re.search(r'INCLUDES="-I([^"\s]+)"', said)
    assert found, said
    return found[1]


def test_only_a_cuda_header_is_split() -> None:
    with pytest.raises(UsageError, match="export --split"):
        render_split(winner(environment=ENVIRONMENT))


@pytest.mark.parametrize(("batch", "part"), [(10_000, 10_000), (9_999, 9_992), (64, 64), (7, 0)])
def test_launches_have_no_more_images_than_were_checked(batch: int, part: int) -> None:
    """An index that overflows only beyond them has not been seen; each part is aligned as all are."""
    layer = LAYERS["sp18/conv2"].with_batch(batch)
    found = find_geometry(launching(lambda B: (B, 3, 1)), TOY.configuration({}), layer)
    assert found.batches(layer) == (1, batch)
    assert found.part(layer) == part
    assert all(part * tensor.nbytes // batch % 256 == 0 for tensor in layer.tensors if tensor.rows)
    text = render_header(dataclasses.replace(winner(template=launching(lambda B: (B, 3, 1))), problem=layer))
    assert f"more become launches of {part}\n" in text if part else "others are refused\n" in text


def test_constant_weights_are_copied_only_where_they_are_used() -> None:
    direct = builtin_templates()["direct"]
    for where, copied in (("constant", True), ("global", False)):
        text = render_header(winner(template=direct, configuration=direct.configuration({"WEIGHTS": where})))
        assert ("cudaMemcpyToSymbolAsync" in text) is copied
        assert ("__constant__ float w_constant" in text) is copied


MAIN = """
#include <cstdio>
#include <cmath>
#include <vector>
#include "one.h"
int main()
{
    const int B = 33, C = SP18_CONV2_C, H = SP18_CONV2_H, W = SP18_CONV2_W, M = SP18_CONV2_M, K = SP18_CONV2_K;
    const int H_out = SP18_CONV2_H_OUT, W_out = SP18_CONV2_W_OUT;
    std::vector<float> x(B * C * H * W), w(M * C * K * K), y(B * M * H_out * W_out, NAN);
    unsigned seed = 1;
    for (float &v : x) v = (seed = seed * 1664525u + 1013904223u) / 4294967296.0f - 0.5f;
    for (float &v : w) v = (seed = seed * 1664525u + 1013904223u) / 4294967296.0f - 0.5f;
    float *dx, *dw, *dy;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dw, w.size() * 4); cudaMalloc(&dy, y.size() * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dw, w.data(), w.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    cudaError_t error = sp18_conv2_forward_launch(dx, dw, dy, B, 0);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error != cudaSuccess) { printf("%s\\n", cudaGetErrorString(error)); return 1; }
    cudaMemcpy(y.data(), dy, y.size() * 4, cudaMemcpyDeviceToHost);
    double worst = 0;
    for (int i = 0; i < B * M * H_out * W_out; i++) {
        int v = i % W_out, h = i / W_out % H_out, m = i / W_out / H_out % M, b = i / W_out / H_out / M;
        double sum = 0;
        for (int c = 0; c < C; c++) for (int p = 0; p < K; p++) for (int q = 0; q < K; q++)
            sum += (double)x[((b * C + c) * H + h + p) * W + v + q] * w[((m * C + c) * K + p) * K + q];
        double off = std::fabs(sum - y[i]);
        if (!(off <= worst)) worst = off;
    }
    printf("%g\\n", worst);
    return worst < 1e-4 ? 0 : 1;
}
"""


def some_of_each_kind(template: KernelTemplate, layer: ConvLayer) -> list[Configuration]:
    """Return the first of the valid configurations, in random order, with each home of the weights and grid."""
    device = open_device("cuda:0")
    space = enumerate_template(template, layer, device.limits)
    device.close()
    found: dict[tuple[object, object], Configuration] = {}
    for row in np.random.default_rng(1).permutation(len(space))[:2_000].tolist():
        configuration = space.configuration(row)
        values = configuration.as_dict()
        found.setdefault((values.get("WEIGHTS"), values.get("GRID_LAYOUT")), configuration)
    return list(found.values())


@pytest.mark.gpu
@needs_nvcc
@pytest.mark.skipif(not shutil.which("nvidia-smi"), reason="no NVIDIA driver")
@pytest.mark.parametrize("name", FOR_CUDA)
def test_header_computes_the_layer_on_a_gpu(name: str, tmp_path: Path) -> None:
    template = builtin_templates()[name]
    arch = arch_of(*driver().Device(0).compute_capability())
    if name == "warpgroup" and arch != "sm_90a":
        pytest.skip(f"warpgroups multiply on sm_90a alone, this is {arch}")
    layer = "fa19/conv2" if name == "warpgroup" else "sp18/conv2"
    main = MAIN.replace("SP18_CONV2", layer.replace("/", "_").upper()).replace("sp18_conv2", layer.replace("/", "_"))
    for number, configuration in enumerate(some_of_each_kind(template, find_layer(layer))):
        folder = tmp_path / str(number)
        folder.mkdir()
        batch = (10_000, 16)[number % 2]  # 33 images are three launches of at most 16
        wanted = winner(layer, template=template, configuration=configuration)
        header(folder, "one.h", dataclasses.replace(wanted, problem=find_layer(layer, batch=batch)))
        compiled(folder, "main.cu", full(main, batch=batch), "nvcc", *target(arch).split())
        done = subprocess.run([folder / "a.out"], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, f"{configuration}: {done.stdout}{done.stderr}"


# OpenCL


@needs_gcc
def test_opencl_headers_compile_as_c99(tmp_path: Path) -> None:
    header(tmp_path, "one.h", winner(environment=ENVIRONMENT))
    header(tmp_path, "two.h", winner("fa18/conv1", ENVIRONMENT))
    text = '#include "one.h"\n#include "two.h"\nint main(void) { return (int)sizeof sp18_conv2_source; }\n'
    compiled(tmp_path, "both.c", full(text, device="cpu"), "gcc", "-std=c99", "-Wall", "-Wextra", "-c")


@needs_gcc
@pytest.mark.filterwarnings("ignore::Warning")
def test_opencl_header_computes_the_layer(tmp_path: Path) -> None:
    """A C program prints the header's source and geometry; PoCL runs them."""
    cl = pytest.importorskip("pyopencl")
    layer = dataclasses.replace(LAYERS["sp18/conv2"], B=3)
    header(tmp_path, "one.h", dataclasses.replace(winner(environment=ENVIRONMENT), problem=layer))
    text = '#include <stdio.h>\n#include "one.h"\nint main(void) { size_t g[3], l[3]; sp18_conv2_global(3, g);\n'
    text += 'sp18_conv2_local(l); printf("%zu %zu %zu %zu %zu %zu\\n", g[0], g[1], g[2], l[0], l[1], l[2]);\n'
    text = full(text + "puts(sp18_conv2_source); return 0; }\n", batch=3, device="cpu")
    compiled(tmp_path, "show.c", text, "gcc", "-std=c99", "-Wall")
    shown = subprocess.run([tmp_path / "a.out"], capture_output=True, text=True, check=True, timeout=300).stdout
    sizes, _, source = shown.partition("\n")
    numbers = tuple(map(int, sizes.split()))
    y, expected = opencl_output(cl, source, numbers, layer)
    np.testing.assert_allclose(y, expected, atol=1e-4)


def opencl_output(cl: object, source: str, sizes: tuple[int, ...], layer: ConvLayer) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, layer.x_shape).astype(np.float32)
    w = rng.uniform(-1, 1, layer.w_shape).astype(np.float32)
    y = np.full(layer.y_shape, np.nan, dtype=np.float32)
    context = cl.Context([opencl.find("cpu")])  # type: ignore[attr-defined]
    queue = cl.CommandQueue(context)  # type: ignore[attr-defined]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR  # type: ignore[attr-defined]
    buffers = [cl.Buffer(context, flags, hostbuf=array) for array in (x, w, y)]  # type: ignore[attr-defined]
    program = cl.Program(context, source).build(["-cl-std=CL1.2"])  # type: ignore[attr-defined]
    numbers = [np.int32(getattr(layer, size)) for size in ("B", "C", "H", "W", "M", "K")]
    kernel = cl.Kernel(program, full("sp18_conv2_forward", batch=3, device="cpu"))  # type: ignore[attr-defined]
    kernel(queue, sizes[:3], sizes[3:], *buffers, *numbers)
    cl.enqueue_copy(queue, y, buffers[2]).wait()  # type: ignore[attr-defined]
    patches = np.lib.stride_tricks.sliding_window_view(x, (layer.K, layer.K), axis=(2, 3))
    return y, np.einsum("bchwpq,mcpq->bmhw", patches.astype(np.float64), w.astype(np.float64), optimize=True)


# Writing


def test_header_replaces_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "conv2.h"
    path.write_text("old")
    path.chmod(0o640)
    write_header(path, "new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["conv2.h"]


@pytest.mark.parametrize("where", ["", "missing/conv2.h"], ids=["folder", "no folder"])
def test_header_in_no_place_is_one_line(where: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        write_header(tmp_path / where, "text")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_header_on_a_full_disk_leaves_the_old_one(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        write_header(disk / "conv2.h", "old\n")
        with pytest.raises(StorageError, match="No space left") as caught:
            write_header(disk / "conv2.h", "x" * 100_000)
        assert "\n" not in str(caught.value)
        assert (disk / "conv2.h").read_text() == "old\n"
        assert [entry.name for entry in disk.iterdir()] == ["conv2.h"]
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
