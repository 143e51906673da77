"""PoCL's builds: the short header gives the machine code of the long one, and a kernel that needs more still builds."""

from __future__ import annotations

import struct
import warnings

import pyopencl as cl
import pytest
from pocl_harness import CPU_LIMITS, NARROW_LIMITS

from tuner.bench.bench import FLUSH_SHARE, Bench
from tuner.devices import cpu, opencl
from tuner.errors import UsageError
from tuner.kernels.loading import builtin_templates
from tuner.kernels.render import prelude, render, short_header
from tuner.kernels.space import enumerate_template
from tuner.problems.conv.layers import find_layer

LAYER = find_layer("C=2,H=14,W=13,M=4,K=3", batch=9)
SHORT = [name for name, template in builtin_templates().items() if len(enumerate_template(template, LAYER, CPU_LIMITS))]


def machine_code(program: cl.Program) -> bytes:
    """Return the section .text of the ELF library inside a program's PoCL binary."""
    binary = program.get_info(cl.program_info.BINARIES)[0]
    elf = binary[binary.index(b"\x7fELF") :]
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<3H", elf, 58)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + size * number) for number in range(count)]
    start = heads[names][4]
    text: bytes = next(elf[h[4] : h[4] + h[5]] for h in heads if elf[start + h[0] :].startswith(b".text\0"))
    return text


@pytest.mark.parametrize("name", SHORT)
def test_short_header_gives_the_machine_code_of_the_long_one(name):
    device = opencl.find("cpu")
    if (device.platform.name, device.driver_version) not in opencl.SHORT_HEADER_FITS:
        pytest.skip(f"{device.platform.name} {device.driver_version} is built with its own header")
    for limits, row in ((CPU_LIMITS, 0), (NARROW_LIMITS, -1)):
        space, words = enumerate_template(builtin_templates()[name], LAYER, limits), limits.vector_words
        index = range(len(space))[row]
        source = render(space.template, space.configuration(index), LAYER, "opencl").source
        code = machine_code(opencl.build_as(device, f"{short_header()}\n{source}", words, ("-D_OPENCL_H_",)))
        assert len(code) > 500
        assert code == machine_code(opencl.build_as(device, source, words)), space.configuration(index)


def test_kernel_with_words_beyond_the_short_header_builds():
    source = "__kernel void k(__global float *y) { y[get_global_id(0)] = native_recip(fmin(y[0], FLT_MAX)); }"
    assert opencl.compile_source("cpu", source)


WIDE = """
__kernel void k(__global const float *x, __global float *y)
{
    BY_VECTORS(COPY_ROW, 29, y, 0, x);
    STORE_WORDS(16, y + 32, LOAD_WORDS(16, x + 32) * 2.0f);
}
"""


@pytest.mark.parametrize("words", [4, 8, 16])
def test_no_vector_is_handed_to_a_function_and_nothing_is_said_of_it(words):
    device = opencl.find("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = opencl.build_as(device, f"{prelude('opencl')}\n{WIDE}", words)
    assert not program.get_build_info(device, cl.program_build_info.LOG).strip()
    assert device.native_vector_width_float >= opencl.native_words(device) >= 4


def test_warnings_of_a_kernel_stay_off_the_terminal(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opencl.compile_source("cpu", "__kernel void k(__global float *y) { int unused; *y = -*y; }")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("told", "takes"), [("", None), ("16777216", 1 << 24)])
def test_cache_is_the_devices_own_or_as_told_and_a_machine_apart(monkeypatch, told, takes):
    monkeypatch.setenv(cpu.CACHE, told)
    device = opencl.OpenCLDevice("cpu")
    assert device.cache_bytes == (opencl.find("cpu").global_mem_cache_size if takes is None else takes)
    assert ("16777216 bytes of cache" in device.environment.model) == (takes is not None)
    if takes is not None:
        bench = Bench(device, LAYER)
        assert bench.flush_bytes == 4 * bench.output.words + FLUSH_SHARE * takes


def test_cache_that_is_no_number_is_one_line(monkeypatch):
    monkeypatch.setenv(cpu.CACHE, "8M")
    with pytest.raises(
        UsageError, match=r"TUNER_CPU_CACHE='8M' is not a number of bytes; write TUNER_CPU_CACHE=8388608"
    ):
        opencl.OpenCLDevice("cpu")
