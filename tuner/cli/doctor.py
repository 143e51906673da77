"""``tune doctor``: what this machine has and lacks, and the measured peaks of its device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import echo_wrapped, print_json, rate
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.bench.protocol import BenchSpec
    from tuner.results import Environment

SAMPLE = "conv1"  # any problem opens the bench
FOUND = 25  # the column of doctor's findings


@click.command("doctor", short_help="Devices and tools found, what is missing, and the remedy.")
@click.option("--ceilings", is_flag=True, help="Measure the device's memory and arithmetic peaks once; then show them.")
@click.option("--again", is_flag=True, help="With --ceilings: measure them again.")
@options.device
@options.as_json
def command(ceilings: bool, again: bool, device: str, as_json: bool) -> None:
    """Report devices, toolkit, driver and versions, what is missing, and the command that fixes it."""
    from tuner.doctor import examine

    if again and not ceilings:
        raise UsageError("doctor --again: nothing else is kept; write tune doctor --ceilings --again")
    if ceilings:
        _show_ceilings(device, again, as_json)
        return

    findings = examine()
    if as_json:
        print_json([finding.as_dict() for finding in findings])
        return
    for finding in findings:
        echo_wrapped(f"{'ok  ' if finding.ok else 'miss'}  {finding.subject:<18} {finding.found}", FOUND)
        if finding.remedy:
            echo_wrapped(" " * FOUND + finding.remedy, FOUND)


def _show_ceilings(device: str, again: bool, as_json: bool) -> None:
    """Print the device's ceilings, cached or measured now.

    Raises:
        UsageError: There is no such device.
        DeviceError: It cannot be measured.
    """
    from tuner.bench.protocol import BenchSpec
    from tuner.bench.worker import Worker
    from tuner.devices import check_name, resolve
    from tuner.problems.lookup import find_problem

    spec = BenchSpec(device=resolve(check_name(device)), problem=find_problem(SAMPLE, 1))
    with Worker(spec) as worker:
        machine = worker.ask(_again) if again else worker.facts.environment
    if as_json:
        print_json(_plain(machine))
        return
    echo(f"{machine.device}: {machine.model}, {machine.driver}")
    for name, value in (
        ("memory, copies and writes", rate(machine.peak_bytes, "B/s")),
        ("FP32 multiply-add", rate(machine.peak_flops, "FLOP/s")),
        ("tensor cores, TF32", rate(machine.peak_tf32, "FLOP/s")),
        ("tensor cores, FP16", rate(machine.peak_fp16, "FLOP/s")),
    ):
        echo(f"    {name:<26} {value:>16}")
    echo("tensor cores by mma.sync or wgmma, FP32 sums; - where there are none. --again measures again.")


def _again(spec: BenchSpec) -> Environment:
    from tuner.bench.ceilings import with_ceilings
    from tuner.bench.worker_process import prepared

    state = prepared(spec)
    return with_ceilings(state.bench, state.device.environment, again=True)


def _plain(machine: Environment) -> dict[str, Any]:
    return {
        "device": machine.device,
        "model": machine.model,
        "driver": machine.driver,
        "bytes_per_second": machine.peak_bytes,
        "fp32_flops": machine.peak_flops,
        "tf32_flops": machine.peak_tf32,
        "fp16_flops": machine.peak_fp16,
    }
