"""One contract for every device: memory, compiling, loading, launching and timing."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.devices import base, check_name, compile_source, open_device
from tuner.errors import CompileError, OutOfResources, UsageError
from tuner.kernels.render import block_defines, prelude
from tuner.kernels.template import Launch

LAUNCH = Launch(grid=(4, 1, 1), block=(64, 1, 1))
SOURCE = """
__global__ void scale(GLOBAL const float *in, GLOBAL float *out, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * in[i];
}
"""


@pytest.fixture(scope="class", params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request):
    opened = open_device(request.param)
    yield opened
    opened.close()


def source_for(device, text=SOURCE, launch=LAUNCH):
    return "\n".join((prelude(device.limits.dialect), block_defines(launch), text))


@pytest.fixture(scope="class")
def binary(device):
    return compile_source(device.environment, source_for(device))


class TestDevice:
    def test_memory_comes_back_as_it_went(self, device):
        data = np.arange(5000, dtype=np.float32)
        buffer = device.allocate(data.nbytes)
        device.upload(buffer, data)
        assert np.array_equal(device.download(buffer, np.float32, data.size), data)
        assert np.array_equal(device.download(buffer, np.float32, 7, offset=4 * 100), data[100:107])

    def test_view_is_the_same_memory(self, device):
        data = np.arange(4096, dtype=np.float32)
        buffer = device.allocate(data.nbytes)
        device.upload(buffer, data)
        view = device.view(buffer, 4096, 4096)
        assert np.array_equal(device.download(view, np.float32, 1024), data[1024:2048])

    def test_kernel_computes_and_is_timed(self, device, binary):
        data = np.linspace(-1, 1, 200, dtype=np.float32)
        source, target = device.allocate(1024), device.allocate(1024)
        device.upload(source, np.resize(data, 256))
        kernel = device.load(binary, "scale", LAUNCH)
        arguments = (source, target, np.float32(3), np.int32(200))
        seconds = device.timed(kernel, LAUNCH, arguments, limit=10.0, repeat=3)
        assert 0 < seconds < 100
        assert np.array_equal(device.download(target, np.float32, 200), np.float32(3) * data)

    def test_compile_error_carries_the_compilers_log(self, device):
        with pytest.raises(CompileError) as caught:
            compile_source(
                device.environment, source_for(device, "__global__ void broken(GLOBAL int *p) { undeclared = 1; }")
            )
        assert "undeclared" in caught.value.text
        assert "\n" not in str(caught.value)

    def test_block_larger_than_the_device_allows_is_out_of_resources(self, device):
        threads = 2 * device.limits.max_threads
        launch = Launch(grid=(1, 1, 1), block=(threads, 1, 1))
        with pytest.raises((OutOfResources, CompileError)):
            device.load(compile_source(device.environment, source_for(device, launch=launch)), "scale", launch)

    def test_allocation_beyond_memory_is_out_of_resources(self, device):
        with pytest.raises(OutOfResources, match="--batch"):
            device.allocate(8 * device.memory_bytes)

    def test_environment_names_model_driver_and_toolkit(self, device):
        machine = device.environment
        assert all((machine.model, machine.driver, machine.toolkit, machine.arch, machine.kind))


@pytest.mark.parametrize(("spin", "sleeps"), [(False, 2), (True, 0)])
def test_waiting_leaves_a_cpu_the_cores_that_its_kernel_runs_on(monkeypatch, spin, sleeps):
    slept: list[float] = []
    monkeypatch.setattr("tuner.devices.base.time.sleep", slept.append)
    monkeypatch.setattr("tuner.devices.base.time.monotonic", lambda: 0.0)
    polls = iter((False, False, True))
    base.wait_until(lambda: next(polls), 10.0, spin=spin)
    assert len(slept) == sleeps
    assert all(seconds > 0 for seconds in slept)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "CPU", "", "opencl"])
def test_unknown_device_is_named_with_those_there_are(name):
    with pytest.raises(UsageError, match="there are: auto, cpu"):
        check_name(name)


def test_opencl_device_that_is_not_there_names_the_remedy():
    with pytest.raises(UsageError, match="take opencl:0"):
        open_device("opencl:99")
