"""An NVIDIA GPU without PyCUDA: doctor and run say in a sentence what is missing, and what brings it."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType
from typing import Any

import pytest

from tuner.cli import main
from tuner.devices import cuda_driver, cuda_needs

ASKED = ["run", "--layer", "C=1,H=8,W=8,M=2,K=3", "--batch", "8", "--trials", "1", "--only", "template=direct"]


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A machine whose kernel driver shows a card, without PyCUDA."""
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    monkeypatch.setattr(cuda_needs, "CARDS", tmp_path / "gpus")
    for name in ("pycuda", "pycuda.driver"):
        monkeypatch.setitem(sys.modules, name, None)
    return tmp_path


@pytest.fixture
def bare(gpu, monkeypatch):
    """The same, with nothing that builds PyCUDA."""
    monkeypatch.setenv("PATH", str(gpu))
    monkeypatch.setenv("CPATH", "")
    monkeypatch.delenv("CUDA_ROOT", raising=False)
    monkeypatch.setattr(cuda_needs, "_has", lambda header, folders: False)


def said(capsys: Any, *arguments: str) -> str:
    with pytest.raises(SystemExit):
        main(list(arguments))
    return str(capsys.readouterr().out)


def test_run_begins_with_what_a_gpu_without_pycuda_lacks(gpu, capsys, tmp_path):
    first = said(capsys, *ASKED, "--storage", str(tmp_path / "tuner.db")).splitlines()[0]
    assert first.startswith("an NVIDIA GPU is there, but PyCUDA is not installed: pip install '.[cuda]' builds it")


@pytest.mark.usefixtures("bare")
def test_doctor_names_each_thing_that_building_pycuda_lacks(capsys):
    told = said(capsys, "doctor", "--json")
    assert "an NVIDIA GPU is there, but PyCUDA is not installed" in told
    for word in (
        "apt-get install g++",
        f"python3.{sys.version_info.minor}-dev",
        "nvcc",
        "cuda.h",
        "CPATH",
        "LIBRARY_PATH",
    ):
        assert word in told


@pytest.mark.usefixtures("bare")
def test_cuda_asked_for_without_pycuda_is_one_line_with_what_it_lacks():
    with pytest.raises(cuda_driver.NoCuda) as raised:
        cuda_driver.require()
    assert "and lacks a C++ compiler (apt-get install g++)" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_nothing_is_lacking_where_all_is_there(tmp_path, monkeypatch):
    toolkit = ("bin/nvcc", "include/cuda.h", "include/curand.h", "lib64/libcurand.so", "lib64/stubs/libcuda.so")
    for path in ("bin/g++", "python/Python.h", *toolkit):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("tuner.devices.cuda_needs.sysconfig.get_path", lambda name: str(tmp_path / "python"))
    assert cuda_needs.lacking() == ""


@pytest.mark.parametrize(("loads", "remedy"), [(True, "build it again"), (False, "install the NVIDIA driver")])
def test_pycuda_that_does_not_load_is_built_again_where_the_driver_is_there(gpu, monkeypatch, loads, remedy):
    (gpu / "pycuda").mkdir()
    (gpu / "pycuda" / "__init__.py").touch()
    (gpu / "pycuda" / "driver.py").write_text("raise ImportError('undefined symbol: cuInit')\n")
    for name in ("pycuda", "pycuda.driver"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(gpu)
    monkeypatch.setattr(cuda_needs, "driver_library_loads", lambda: loads)
    why = cuda_driver.why_none()
    monkeypatch.delitem(sys.modules, "pycuda")
    assert why.startswith("an NVIDIA GPU is there, but PyCUDA does not load (undefined symbol: cuInit): " + remedy)


@pytest.mark.parametrize("cards", [0, 2])
def test_gpu_is_seen_through_nvml_where_the_kernel_shows_none(tmp_path, monkeypatch, cards):
    nvml = ModuleType("pynvml")
    nvml.nvmlInit = lambda: None  # type: ignore[attr-defined]
    nvml.nvmlDeviceGetCount = lambda: cards  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(cuda_needs, "CARDS", tmp_path / "none")
    assert cuda_needs.gpu_present() == bool(cards)
