"""A user's own kernel: what can be seen before it is compiled is one line, what the compiler says names its place."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from own_template import LAYER, RULE, SOURCE, own, run, written
from pocl_harness import CPU_LIMITS
from toy_store import TOY, changed, toy_ok

from tuner.cli.support.text import spread
from tuner.devices.diagnostics import readable
from tuner.devices.opencl import compile_source
from tuner.errors import CompileError, UsageError
from tuner.kernels.loading import builtin_templates, load_template
from tuner.kernels.render import prelude, render
from tuner.kernels.sources import with_includes
from tuner.kernels.space import enumerate_space
from tuner.kernels.template import CUDA, OPENCL
from tuner.kernels.text import check_source
from tuner.problems.conv.layers import find_layer
from tuner.results import Measurement
from tuner.tuning.disturbance import noise_line
from tuner.tuning.options import RunOptions
from tuner.tuning.template_checks import check_some_left, suited

PLAIN = SOURCE.replace("GLOBAL ", "")
needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not installed")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "its source is empty; write __global__ void conv_forward(x, w, y, B, C, H, W, M, K)"),
        ("// conv_forward\n", "its source is empty"),
        ("int x;\n", "its source has no kernel"),
        (SOURCE.replace("conv_forward", "my_conv"), "mine.cu:2: there is no kernel conv_forward, but my_conv"),
        (SOURCE.replace("int B, ", ""), "mine.cu:2: conv_forward takes 8 arguments; it is launched with 9"),
        (SOURCE.replace("int B,", "long B,"), "takes 'long B' for B; it is launched with an int"),
        (SOURCE.replace("float *y", "double *y"), "takes 'GLOBAL double *y' for y; it is launched with a pointer to"),
        (PLAIN, "mine.cu:2: a CPU runs OpenCL C, and pointers need GLOBAL before them: GLOBAL const float *x"),
        (
            "template <int N> __device__ int f() { return N; }\n" + SOURCE,
            "mine.cu:1: a CPU runs OpenCL C, and this is a",
        ),
        (SOURCE.replace("float sum", "__shared__ float t[9];\n    float sum"), "mine.cu:9: a CPU runs OpenCL C, and"),
        ("#include <cuda_fp16.h>\n" + SOURCE, "mine.cu:1: a CPU runs OpenCL C, and this is a header of CUDA"),
        (SOURCE.replace("0.0f", "0.0f + __TIME__[7]"), ": __TIME__ makes another kernel of each build; leave it out"),
        (
            "#if __has_include(</proc/version>)\n#endif\n" + SOURCE,
            "1: __has_include makes another kernel of each build",
        ),
    ],
)
def test_source_that_cannot_work_is_one_line(tmp_path, source, says):
    with pytest.raises(UsageError) as caught:
        check_source(own(tmp_path, source=source), OPENCL)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_plain_cuda_kernel_is_told_on_a_cpu_where_it_runs(tmp_path):
    template = own(tmp_path, source=PLAIN)
    check_source(template, CUDA)
    with pytest.raises(UsageError, match=r"or run it with --device cuda, and say dialects=\(CUDA,\)"):
        run(tmp_path, template)
    alone = own(tmp_path, ("launch=launch", 'launch=launch, dialects=("cuda",)'), source=PLAIN)
    space = enumerate_space((alone,), LAYER, CPU_LIMITS)
    with pytest.raises(UsageError, match="mine: it is written for cuda alone"):
        check_some_left(space, options(alone))


@pytest.mark.parametrize(
    "source",
    [
        SOURCE,
        SOURCE.replace("GLOBAL const", "CONSTANT const", 1),
        SOURCE.replace("__global__ void", "__global__ void __launch_bounds__(64)\n"),
        SOURCE.replace("int B, int C, int H, int W, int M, int K", "SIZES"),
        "#ifdef __CUDACC__\ntemplate <int N> struct A;\n#endif\n" + SOURCE,
        "/* template <int> */ // std::x\n" + SOURCE,
        "#define __shared__ __local\n" + SOURCE.replace("float sum", "__shared__ float t[9];\n    float sum"),
    ],
)
def test_source_that_may_work_is_left_to_the_compiler(tmp_path, source):
    check_source(own(tmp_path, source=source), OPENCL)


def test_built_in_sources_pass_the_same_look():
    for template in builtin_templates().values():
        check_source(template, OPENCL if OPENCL in template.dialects else CUDA)


def test_bom_and_crlf_are_read_as_editors_meant_them(tmp_path):
    path = written(tmp_path, source="")
    (tmp_path / "mine.cu").write_bytes(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_template(path).source == SOURCE


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"int x;\nint \0y;\n", "mine.cu:2: a NUL byte; save it as plain text"),
        (b"\xff\xfea\0", "mine.cu: byte 0 (0xff) is not UTF-8; save it as UTF-8"),
    ],
)
def test_source_that_is_no_text_is_one_line(tmp_path, content, says):
    path = written(tmp_path)
    (tmp_path / "mine.cu").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_template(path)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        (("float sum = 0.0f", "float sum = zero"), "mine.cu:10:17", "use of undeclared identifier 'zero'"),
        (("    y[i] = sum;", "    y[i] = sum"), "mine.cu:16:15", "expected ';' after expression"),
        (
            ("    y[i] = sum;", "\ty[i] = TWICE(total);"),
            "mine.cu:16:15",
            "use of undeclared identifier 'total'",
        ),
    ],
)
def test_compile_error_names_the_users_line_with_a_caret(tmp_path, change, place, says):
    (tmp_path / "part.h").write_text("#define TWICE(a) ((a) + (a))\n#define THRICE(a) (a)\n")
    source = '#include "part.h"\n' + SOURCE.replace(*change)
    template = own(tmp_path, source=source)
    rendered = render(template, template.configuration({}), LAYER, OPENCL)
    with pytest.raises(CompileError) as caught:
        compile_source("cpu", rendered.source)
    said = caught.value.whole.splitlines()
    _, line, column = place.split(":")
    text = source.splitlines()[int(line) - 1]
    blank = "".join("\t" if letter == "\t" else " " for letter in text[: int(column) - 1])
    assert said[:3] == [f"{place}: error: {says}", text, f"{blank}^"]
    assert "clBuildProgram" not in caught.value.whole


def test_error_in_an_included_file_names_that_file(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "part.h").write_text("// one\n#error not yet\n")
    template = own(tmp_path, source='#include "deep/part.h"\n' + SOURCE)
    with pytest.raises(CompileError) as caught:
        compile_source("cpu", render(template, template.configuration({}), LAYER, OPENCL).source)
    assert str(caught.value).startswith("deep/part.h:2:2: error: not yet")


BROKEN = SOURCE.replace("sum = 0.0f", "sum = zero")


@pytest.mark.parametrize(
    ("source", "beside", "at"),
    [
        ('"#define MORE 1\\n" + read_source(__file__)', BROKEN, "mine.cu:9:17"),
        (f'"""\n{BROKEN}"""', "// see mine.py\n", "mine.py:21:17"),
        ("read_source(__file__).replace('row = i', 'row  = i')", BROKEN, "mine source:9:17"),
    ],
    ids=["joined", "in the .py", "changed"],
)
def test_compile_error_of_a_source_that_was_put_together_is_found(tmp_path, source, beside, at):
    template = own(tmp_path, ("read_source(__file__)", source), source=beside)
    with pytest.raises(CompileError) as caught:
        compile_source("cpu", render(template, template.configuration({}), LAYER, OPENCL).source)
    assert str(caught.value) == f"{at}: error: use of undeclared identifier 'zero'"
    assert caught.value.text.splitlines()[1:3] == ["    float sum = zero;", "                ^"]


@needs_nvcc
def test_nvcc_names_the_users_line_with_a_caret(tmp_path):
    (tmp_path / "part.h").write_text("#define PART 1\n")
    broken = SOURCE.replace("float sum = 0.0f;", "float sum =\tzero + 1;")
    template = own(tmp_path, source='#include "part.h"\n' + broken)
    source = render(template, template.configuration({}), LAYER, CUDA).source
    path = tmp_path / "kernel.cu"
    path.write_text('extern "C" {\n' + source + "\n}\n")
    command = ["nvcc", "-cubin", "-arch=sm_80", "-std=c++17", "-o", str(tmp_path / "k.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = readable(done.stderr, source)
    assert found == (
        'mine.cu:10:17: error: identifier "zero" is undefined',
        'mine.cu:10:17: error: identifier "zero" is undefined\n    float sum =\tzero + 1;\n               \t^',
    )


def test_log_that_names_no_line_of_the_user_is_kept():
    assert readable("ptxas error   : Entry function 'f' uses too much shared data", '#line 1 "mine.cu"\nint x;') is None
    assert readable("error: /tmp/a.cl:3:4: no", "int x;") is None


@pytest.mark.parametrize("word", ["BULK_COMMIT", "BARRIER_WAIT", "WARPGROUP_FENCE"])
def test_word_of_an_older_version_says_what_takes_its_place(tmp_path, word):
    used = SOURCE.replace("float sum = 0.0f;", f"float sum = 0.0f; {word}();")
    with pytest.raises(UsageError, match=rf"mine\.cu:\d+: {word} is no longer a word of kernels; include a copy of"):
        check_source(own(tmp_path, source=used), CUDA)
    check_source(own(tmp_path, source=f"#define {word}()\n{used}"), CUDA)


def test_source_is_the_same_text_with_and_without_its_places(tmp_path):
    (tmp_path / "part.h").write_text("int a;\nint b;\n")
    (tmp_path / "mine.cu").write_text('int c;\n  # include "part.h"  // both\nint d;\n')
    source = with_includes(tmp_path / "mine.cu")
    assert source == "int c;\nint a;\nint b;\n\nint d;\n"
    assert source.marked() == (
        '#line 1 "mine.cu"\nint c;\n#line 1 "part.h"\nint a;\nint b;\n\n#line 3 "mine.cu"\nint d;\n'
    )


def test_built_in_templates_are_rendered_as_before():
    direct = builtin_templates()["direct"]
    source = render(direct, direct.configuration({}), LAYER, OPENCL).source
    assert "#line" not in source
    assert source.startswith(prelude(OPENCL))


# What is too large, and too narrow


def options(*templates, layer=LAYER):
    return RunOptions(problem=layer, device="cpu", templates=templates, storage="", sampler="grid")


@pytest.mark.parametrize(
    ("sizes", "larger"),
    [
        ("C=1,H=1000,M=3,K=1", "y has 2,400,000,000 elements"),
        ("C=3,H=1000,M=1,K=1", "x has 2,400,000,000 elements"),
    ],
)
def test_more_elements_than_an_int_counts_need_wide_indices(tmp_path, sizes, larger):
    layer = find_layer(sizes, batch=800)
    with pytest.raises(UsageError) as caught:
        suited(options(TOY, layer=layer))
    assert f"{larger}, an int counts to 2,147,483,647; give --batch 715 or less" in str(caught.value)
    assert suited(options(TOY, layer=layer.with_batch(715))) == (TOY,)
    wide = own(tmp_path, ("launch=launch", "launch=launch, wide_indices=True"))
    assert suited(options(TOY, wide, layer=layer)) == (wide,)


def test_template_without_a_valid_configuration_is_said_in_a_line(tmp_path):
    narrow = own(tmp_path, (RULE, "p.THREADS > 64"))
    both = (narrow, TOY)
    lines = check_some_left(enumerate_space(both, LAYER, CPU_LIMITS), options(*both))
    assert lines == [
        "template mine is left out, since none of its configurations is valid here: too many threads (threads)"
    ]
    with pytest.raises(UsageError, match=r"no valid configuration on cpu \(mine: too many threads \(threads\)\)"):
        check_some_left(enumerate_space((narrow,), LAYER, CPU_LIMITS), options(narrow))
    every = tuple(builtin_templates().values())
    assert check_some_left(enumerate_space(every, LAYER, CPU_LIMITS), options(*every)) == []


def test_two_templates_of_one_name_are_refused(tmp_path):
    with pytest.raises(UsageError, match="template mine: two have this name"):
        enumerate_space((own(tmp_path), own(tmp_path)), LAYER, CPU_LIMITS)


def test_spread_beyond_the_time_itself_is_capped():
    wild = Measurement(samples=(1e-6,) * 6 + (1e-3,) * 5)
    assert spread(toy_ok(0)).endswith("%")
    assert spread(changed(toy_ok(0), measurement=wild)) == "> 100%"
    assert "noise of over 100%, above 5%" in noise_line(wild.spread, None)
