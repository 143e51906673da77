"""PoCL on a machine that lacks what it needs: a CPU that its LLVM does not know."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tuner.devices.pocl import KNOWN, LAST, nearest_known

FLAGS = {name: frozenset(flags.split()) for name, flags in KNOWN}

NAMED_ANEW = """
import ctypes
from pathlib import Path

import pyopencl

from tuner.devices import pocl

ask = ctypes.CDLL(str(next(Path(pyopencl.__file__).parent.glob(".libs/libpocl*")))).pocl_get_llvm_cpu_name
ask.restype = ctypes.c_char_p
pocl.UNKNOWN = ask()  # as if LLVM knew this machine's no better
pocl.nearest_known = lambda flags: "x86-64"
from tuner.devices import opencl

print("built", len(opencl.compile_source("cpu", "__kernel void k(__global float *y) { y[0] = tanh(y[0]); }")) > 0)
print("named", opencl.NAMED)
"""


@pytest.mark.parametrize("name", FLAGS)
def test_unknown_cpu_is_the_known_one_with_its_instructions(name):
    assert nearest_known(FLAGS[name] | {"sse", "something_new"}) in (name, *list(FLAGS)[: list(FLAGS).index(name)])
    assert set(nearest_known(FLAGS[name]).split()) == {name}


def test_cpu_without_any_of_them_is_the_oldest():
    assert nearest_known(frozenset({"sse"})) == LAST


def test_kernel_builds_on_a_cpu_that_llvm_does_not_know():
    done = subprocess.run([sys.executable, "-c", NAMED_ANEW], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["built", "True", "named", "x86-64"]
