"""Floors: the right peak for what multiplies, the wall named, the search ended near it, the ceilings measured once."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faulty import faulty
from older_stores import with_columns_of_layers
from small_run import LAYER, run
from toy_store import ENVIRONMENT, TEMPLATES, TOY, changed, sql, toy_configuration, toy_key, toy_ok

from tuner.bench import ceilings
from tuner.bench.bench import PARTS, THREADS, Bench
from tuner.bench.ceilings import Ceilings, with_ceilings
from tuner.bench.roofline import exact_enough, least_roof, operands_of, products_of, roof
from tuner.cli import _run
from tuner.cli.support.live import PlainObserver
from tuner.cli.support.rows import roof_line
from tuner.devices import open_device
from tuner.devices.nvcc import OPTIONS, WARN_SPILLS
from tuner.errors import UsageError
from tuner.kernels.render import block_defines, prelude
from tuner.kernels.template import CUDA, Configuration, Launch
from tuner.problems.conv.layers import find_layer
from tuner.results import Measurement, Telemetry
from tuner.storage import Store
from tuner.storage.schema import SCHEMA_VERSION
from tuner.tuning import Progress, RunOptions
from tuner.tuning.ceiling_check import CeilingCheck
from tuner.tuning.roofline_stop import near_floor

CONV2 = find_layer("fa18/conv2", 10_000)
CARD = replace(ENVIRONMENT, peak_flops=62.9e12, peak_bytes=4.2e12, peak_tf32=400e12, peak_fp16=800e12)


def with_operands(operands: str) -> Configuration:
    return Configuration(template="tensor_core", values=(("MMA_TYPE", operands), ("TILE", 4)))


@pytest.mark.parametrize(
    ("operands", "milliseconds", "wall"),
    [
        ("fp32", 3.271, "FMA"),
        ("tf32x3", 1.543, "tensor cores"),
        ("fp16x3", 0.772, "tensor cores"),
        ("fp16x4", 1.029, "tensor cores"),
        ("tf32", 0.514, "tensor cores"),
        ("fp16", 0.2912, "memory"),
        ("bf16", 0.2912, "memory"),
    ],
)
def test_floor_follows_what_is_multiplied(operands, milliseconds, wall):
    bound = roof(CONV2, CARD, operands_of(with_operands(operands)))
    assert bound is not None
    assert 1e3 * bound.seconds == pytest.approx(milliseconds, rel=2e-3)
    assert bound.wall == wall
    assert bound.share(2 * bound.seconds) == 0.5


def test_without_tensor_cores_every_floor_is_multiply_adds():
    plain = replace(CARD, peak_tf32=None, peak_fp16=None)
    assert {roof(CONV2, plain, operands) for operands in ("fp32", "tf32x3", "fp16x4", "bf16")} == {roof(CONV2, plain)}
    assert roof(CONV2, replace(CARD, peak_bytes=None)) is None
    assert operands_of(toy_configuration(1)) == "fp32"


def test_exact_enough_operands_are_the_templates_own():
    from tuner.kernels.loading import builtin_templates

    template = builtin_templates()["tensor_core"]
    (choices,) = [list(map(str, each.choices)) for each in template.parameters if each.name == "MMA_TYPE"]
    assert all(products_of(choice) for choice in choices)
    exact = template.launch.__globals__["EXACT"]
    for precision, allowed in exact.items():
        enough = {choice for choice in choices if exact_enough(choice, precision)}
        assert enough - set(allowed) == (set() if precision == "fp32" else {"tf32x3"})  # never faster than tf32
        assert set(allowed) <= enough
        assert exact_enough("fp32", precision)


def test_least_floor_counts_only_what_the_precision_allows():
    assert least_roof(CONV2, CARD, "fp32") == roof(CONV2, CARD)
    assert least_roof(CONV2, CARD, "fp32", ("tf32x3", "tf32", "fp16")) == roof(CONV2, CARD, "tf32x3")
    assert least_roof(CONV2, CARD, "tf32", ("tf32x3", "tf32", "fp16")) == roof(CONV2, CARD, "tf32")


def progress_at(share: float, **more) -> Progress:
    bound = roof(CONV2, CARD)
    assert bound is not None
    measured = Measurement(samples=(bound.seconds / share,) * 9, **more)
    best = changed(toy_ok(1, confirmed=True), measurement=measured)
    return Progress(study="s", problem=CONV2, environment=CARD, space=9, trials=None, seconds=None, best=best)


def test_plain_lines_come_with_each_gain_and_after_ten_seconds_without_one(capsys):
    observer, progress = PlainObserver(), progress_at(0.5)
    for done, progress.elapsed in ((1, 0.1), (2, 0.2), (60, 9.9), (61, 10.2), (90, 20.0), (91, 20.3), (99, 21.0)):
        progress.done = done
        observer.trial(toy_ok(2), progress)
    progress.best, progress.done = progress_at(0.6).best, 100
    observer.trial(toy_ok(3), progress)
    shown = [line.split("trial ")[1].split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["1", "61", "91", "100"]


def options(stop_at: float | None, templates=TEMPLATES) -> RunOptions:
    return RunOptions(problem=CONV2, device="cpu", templates=templates, storage="s.db", sampler="grid", stop_at=stop_at)


def test_search_ends_at_its_share_of_the_floor_and_not_before():
    assert near_floor(options(0.98), progress_at(0.985))
    assert not near_floor(options(0.98), progress_at(0.975))
    assert not near_floor(options(None), progress_at(1.0))
    assert not near_floor(options(0.98), progress_at(0.99, pruned=True))


def test_search_goes_on_while_tensor_cores_have_a_lower_floor():
    from tuner.kernels.loading import builtin_templates

    both = (TOY, builtin_templates()["tensor_core"])
    assert not near_floor(options(0.98, both), progress_at(0.99))
    assert near_floor(options(0.98, both), progress_at(6.4))


@pytest.mark.parametrize("share", [0.0, -1.0, 1.1])
def test_impossible_share_is_refused(share):
    with pytest.raises(UsageError, match=r"--stop-at .* at most 1"):
        options(share)


def test_run_stops_early_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("tuner.tuning.run.near_floor", lambda options, progress: progress.done >= 2)
    report = run(tmp_path, faulty("none", threads=(8, 16, 32, 64)), stop_at=0.98)
    assert (report.reason, report.progress.done) == ("floor", 2)
    assert report.winner is not None
    line = roof_line(report.progress.yardstick, report.winner)
    assert "of its roofline bound" in line
    assert "limited by memory" in line or "limited by FMA" in line


def test_trials_of_a_store_of_version_one_are_read_and_added_to(tmp_path):
    path = tmp_path / "old.db"
    with Store.open(path) as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        handle.record(toy_ok(1))
    with sql(path) as db:
        for name, column in (
            ("environment", "peak_tf32"),
            ("environment", "peak_fp16"),
            ("result", "occupancy"),
            ("result", "spill_bytes"),
        ):
            db.execute(f"alter table tuner_{name} drop column {column}")
        with_columns_of_layers(db)
        db.execute("update tuner_schema set version = 1")
    with Store.open(path) as store:
        handle = store.study(toy_key(), CARD, TEMPLATES)
        assert len(handle.results()) == 1
        handle.record(toy_ok(2))
        assert store.find_study(handle.name).environment == CARD
    with sql(path) as db:
        assert db.execute("select version from tuner_schema").fetchone() == (SCHEMA_VERSION,)


def test_doctor_measures_ceilings_and_shows_them(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_CACHE_DIR", str(tmp_path))
    assert _run(["doctor", "--ceilings", "--device", "cpu", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (stored,) = [json.loads(path.read_text()) for path in (tmp_path / "ceilings").iterdir()]
    peaks = {"flops": shown["fp32_flops"], "bytes": shown["bytes_per_second"], "tf32": None, "fp16": None}
    assert stored == {**peaks, "times": 1}
    assert 1e8 < shown["bytes_per_second"] < 1e13
    assert _run(["doctor", "--again"]) == 2
    assert "doctor --ceilings --again" in capsys.readouterr().err


def test_ceilings_measured_again_replace_a_wrong_store(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_CACHE_DIR", str(tmp_path))
    device = open_device("cpu")
    try:
        bench = Bench(device, LAYER)
        first = with_ceilings(bench, device.environment)
        (path,) = (tmp_path / "ceilings").iterdir()
        path.write_text(json.dumps({"flops": 1e30, "bytes": 1e30}))
        kept = with_ceilings(bench, device.environment)
        again = with_ceilings(bench, device.environment, again=True)
    finally:
        device.close()
    assert kept.peak_flops == 1e30
    assert again.peak_flops is not None
    assert again.peak_flops < 1e15
    assert first.peak_tf32 is None


def test_a_disturbed_measurement_does_not_last(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_CACHE_DIR", str(tmp_path))
    disturbed = Ceilings(flops=20e12, bytes=4.5e12, tf32=100e12, fp16=None)
    free = Ceilings(flops=60e12, bytes=4.4e12, tf32=400e12, fp16=800e12)
    measured = []

    def measure(bench):
        measured.append(bench)
        return disturbed if len(measured) == 1 else free

    monkeypatch.setattr(ceilings, "_measure", measure)
    states = iter(["software thermal", "software power cap", *[""] * 9])
    device = SimpleNamespace(
        shares_host=False,
        limits=SimpleNamespace(capability=90),
        telemetry=lambda: Telemetry(throttle=next(states)),
    )
    bench: Any = SimpleNamespace(device=device)
    seen = [with_ceilings(bench, CARD) for _ in range(5)]
    assert [each.peak_flops for each in seen] == [20e12, 60e12, 60e12, 60e12, 60e12]
    assert (seen[-1].peak_bytes, seen[-1].peak_tf32, seen[-1].peak_fp16) == (4.5e12, 400e12, 800e12)
    assert len(measured) == 4  # the throttled one does not count
    with_ceilings(bench, CARD, again=True)
    assert len(measured) == 5


def test_a_best_at_the_floor_has_the_ceilings_measured_again_before_it_ends_a_search():
    low, high = replace(CARD, peak_flops=20e12, peak_bytes=1e12), replace(CARD, peak_flops=60e12, peak_bytes=4e12)
    asked = []

    def ask(what):
        asked.append(what)
        return high

    worker: Any = SimpleNamespace(ask=ask)
    state = progress_at(0.6)
    state.environment = low
    check = CeilingCheck(
        worker, RunOptions(problem=CONV2, device="cuda:0", templates=(TOY,), storage="", sampler="random")
    )
    check.look(state)
    assert (len(asked), state.environment) == (1, high)
    state.environment = low
    check.look(state)
    assert len(asked) == 1


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
@pytest.mark.parametrize(
    ("arch", "tensor", "warpgroup"),
    [("sm_75", False, False), ("sm_80", True, False), ("sm_90a", True, True), ("sm_100", True, False)],
)
def test_bench_compiles_with_tensor_cores_where_there_are_some(tmp_path, arch, tensor, warpgroup):
    source = tmp_path / "bench.cu"
    launch = Launch(grid=(1, 1, 1), block=(THREADS, 1, 1))
    bench = "\n".join(Path(ceilings.__file__).with_name(part).read_text() for part in PARTS)
    source.write_text("\n".join((prelude(CUDA), 'extern "C" {', block_defines(launch), bench, "}")))
    command = ["nvcc", "-cubin", f"-arch={arch}", *OPTIONS, *WARN_SPILLS, str(source), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "spill" not in done.stderr
    binary = (tmp_path / "out").read_bytes()
    assert [name.encode() in binary for name in ceilings.MMA_FLOP] == [tensor, tensor]
    assert [name.encode() in binary for name in ceilings.WARPGROUP_FLOP] == [warpgroup, warpgroup]


@pytest.mark.gpu
def test_tensor_cores_outdo_multiply_adds_and_fp16_outdoes_tf32(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_CACHE_DIR", str(tmp_path))
    device = open_device("cuda:0")
    try:
        if device.limits.capability < 80:
            pytest.skip("no TF32 tensor cores here")
        found = with_ceilings(Bench(device, LAYER), device.environment)
    finally:
        device.close()
    print(found)
    assert found.peak_flops is not None
    assert found.peak_tf32 is not None
    assert found.peak_fp16 is not None
    assert found.peak_tf32 > 2 * found.peak_flops
    assert found.peak_fp16 > 1.2 * found.peak_tf32  # twice as fast, but other tests may run beside this one
