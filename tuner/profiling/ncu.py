"""Run Nsight Compute's ``ncu`` on one launch and read a short, stated list of counters from its CSV."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.bench.protocol import BenchSpec
from tuner.errors import TunerError, UsageError
from tuner.kernels.render import Rendered
from tuner.processes.scratch import Scratch
from tuner.profiling.target import describe

MISSING = (
    "replay --profile: ncu is not on the PATH; install NVIDIA Nsight Compute (with the CUDA toolkit, or the package "
    "nsight-compute) and put its folder on the PATH"
)
LIMIT_SECONDS = 600.0
STALLS = (
    "long_scoreboard",
    "short_scoreboard",
    "math_pipe_throttle",
    "mio_throttle",
    "lg_throttle",
    "barrier",
    "dispatch_stall",
    "wait",
    "not_selected",
)
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
METRICS = {
    "time": "gpu__time_duration.sum",
    "device memory read": "dram__bytes_read.sum",
    "device memory written": "dram__bytes_write.sum",
    "SM throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "issue slots used": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "shared-memory bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "achieved occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers a thread": "launch__registers_per_thread",
    **{f"warps stalled, {reason.replace('_', ' ')}": STALLED.format(reason) for reason in STALLS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One counter's value, in base units as ``ncu`` names them; the text is kept where it is not a number."""

    name: str
    metric: str
    value: float | str
    unit: str


def find_ncu() -> str:
    """Return the profiler's path.

    Raises:
        UsageError: It is not installed; names what to install.
    """
    path = shutil.which("ncu")
    if path is None:
        raise UsageError(MISSING)
    return path


def profile(spec: BenchSpec, rendered: Rendered) -> list[Counter]:
    """Run the kernel once under the profiler and return the counters, in the order of ``METRICS``.

    Raises:
        UsageError: The profiler is not installed.
        TunerError: It failed, or gave no counters; with its own message.
    """
    ncu = find_ncu()
    with Scratch() as scratch:
        task = scratch.folder / "task.json"
        task.write_text(describe(spec, rendered), encoding="utf-8")
        command = [
            ncu,
            *("--csv", "--print-units", "base", "--metrics", ",".join(METRICS.values())),
            *("--kernel-name", rendered.entry, "--launch-count", "1"),
            *(sys.executable, "-m", "tuner.profiling.target", str(task)),
        ]
        own = {**os.environ, "POCL_CACHE_DIR": str(task.parent)}  # in one folder two processes clear each other's files
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False, env=own)
        except subprocess.TimeoutExpired:
            raise TunerError(f"ncu took longer than its limit of {LIMIT_SECONDS:.0f} s") from None
    counters = read_csv(done.stdout.splitlines())
    if done.returncode or not counters:
        raise TunerError(f"ncu gave no counters: {_complaint(done.stdout + done.stderr, done.returncode)}")
    return counters


def _complaint(output: str, code: int) -> str:
    """Return the profiler's own error, else the last line of what ran under it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    said = errors or lines[-1:]
    if any("ERR_NVGPUCTRPERM" in line for line in said):
        return f"{said[0]}; run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
    return said[0] if said else f"it ended with exit code {code} and no message"


def read_csv(lines: Iterable[str]) -> list[Counter]:
    """Read the profiler's CSV: one line a counter, after its own messages."""
    rows = [line for line in lines if line.startswith('"')]
    found = {row["Metric Name"]: row for row in csv.DictReader(rows) if row.get("Metric Name")}
    return [
        Counter(
            name=name, metric=metric, value=_number(found[metric]["Metric Value"]), unit=found[metric]["Metric Unit"]
        )
        for name, metric in METRICS.items()
        if metric in found
    ]


def _number(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text
