"""PoCL's builds: the short header gives the machine code of the long one, and a kernel that needs more still builds."""

from __future__ import annotations

import struct

import pytest
from pocl_harness import CPU_LIMITS

from tuner.devices import opencl
from tuner.layers import find_layer
from tuner.loading import builtin_templates
from tuner.render import render, short_header
from tuner.space import enumerate_template

LAYER = find_layer("C=2,H=14,W=13,M=4,K=3", batch=9)
SHORT = [name for name, template in builtin_templates().items() if len(enumerate_template(template, LAYER, CPU_LIMITS))]


def machine_code(binary: bytes) -> bytes:
    """Return the section .text of the ELF library inside a PoCL binary."""
    elf = binary[binary.index(b"\x7fELF") :]
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<3H", elf, 58)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + size * number) for number in range(count)]
    start = heads[names][4]
    return next(elf[h[4] : h[4] + h[5]] for h in heads if elf[start + h[0] :].startswith(b".text\0"))


@pytest.mark.parametrize("name", SHORT)
def test_short_header_gives_the_machine_code_of_the_long_one(name):
    device = opencl.find("cpu")
    if (device.platform.name, device.driver_version) not in opencl.SHORT_HEADER_FITS:
        pytest.skip(f"{device.platform.name} {device.driver_version} is built with its own header")
    space = enumerate_template(builtin_templates()[name], LAYER, CPU_LIMITS)
    for index in (0, len(space) - 1):
        source = render(space.template, space.configuration(index), LAYER, "opencl").source
        short = opencl._build(device, f"{short_header()}\n{source}", ("-D_OPENCL_H_", "-w"))
        code = machine_code(short)
        assert len(code) > 500
        assert code == machine_code(opencl._build(device, source)), space.configuration(index)


def test_kernel_with_words_beyond_the_short_header_builds():
    source = "__kernel void k(__global float *y) { y[get_global_id(0)] = native_recip(fmin(y[0], FLT_MAX)); }"
    assert opencl.compile_source("cpu", source)
