"""Compile many CUDA sources with nvcc at once, and read what ptxas says that they use. Needs no GPU."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tuner.devices.nvcc import C_LINKAGE

_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What ptxas reports of one kernel, or that it did not compile.

    Units:
        ``frame`` and ``spills`` (stores) are bytes a thread.
    """

    code: int
    log: str
    registers: int = 0
    frame: int = 0
    spills: int = 0


def compile_all(sources: Sequence[str], arch: str, folder: Path, at_once: int = 2) -> list[Used]:
    """Compile each source as PyCUDA does, several at once."""
    with ThreadPoolExecutor(at_once) as pool:
        jobs = [(source, arch, folder / f"{arch}_{number}.cu") for number, source in enumerate(sources)]
        return list(pool.map(lambda job: compile_one(*job), jobs))


def compile_one(source: str, arch: str, path: Path, more: Sequence[str] = ()) -> Used:
    linked = source if C_LINKAGE.search(source) else 'extern "C" {\n' + source + "\n}\n"
    path.write_text(linked, encoding="utf-8")
    options = ["-O3", "-std=c++17", "-cubin", f"-arch={arch}", "-Xptxas", "-v", *more]
    command = ["nvcc", *options, "-o", str(path.with_suffix(".cubin")), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    log = done.stdout + done.stderr
    if done.returncode:
        return Used(code=done.returncode, log=log)
    registers, spills = _REGISTERS.search(log), _SPILLS.search(log)
    assert registers, log
    assert spills, log
    return Used(code=0, log=log, registers=int(registers[1]), frame=int(spills[1]), spills=int(spills[2]))
