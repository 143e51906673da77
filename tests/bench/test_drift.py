"""Times of different runs are compared by their ratio to the canary where the device's speed has changed."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path

import pytest
from faulty import faulty
from small_run import run
from toy_store import changed, sql, toy_ok

from tuner.bench.bench import Bench
from tuner.bench.drift import as_of_now, change_since, speed_change
from tuner.bench.protocol import BenchSpec
from tuner.bench.telemetry import describe, warnings
from tuner.bench.worker import Worker
from tuner.bench.worker_process import WorkerState
from tuner.problems.conv.layers import find_layer
from tuner.results import Result, Telemetry

CALM = (2.00e-3, 2.01e-3, 1.99e-3, 2.00e-3, 2.01e-3, 2.00e-3, 1.99e-3, 2.00e-3, 2.00e-3)


def timed(number: int, median: float, canary: float, hours: float = 0.0) -> Result:
    result = toy_ok(number, median, confirmed=True)
    assert result.measurement is not None
    measurement = dataclasses.replace(result.measurement, canary=canary)
    return dataclasses.replace(changed(result, measurement=measurement), started=1e9 + 3600 * hours + number)


def test_canary_that_moved_within_its_noise_changes_nothing():
    assert speed_change(CALM, [1.015 * canary for canary in CALM]) == 1.0
    noisy = [canary * (1 + 0.2 * (-1) ** number) for number, canary in enumerate(CALM)]
    assert speed_change(noisy, [1.1 * canary for canary in CALM]) == 1.0
    assert speed_change(CALM[:3], [2 * canary for canary in CALM]) == 1.0


def test_known_results_are_rescaled_on_a_warmer_device():
    known = [timed(number, 1e-3 * (1 + number), CALM[number]) for number in range(9)]
    now, line = as_of_now(known, [1.1 * canary for canary in CALM])
    assert [each.seconds for each in now] == pytest.approx([1.1e-3 * (1 + number) for number in range(9)])
    before, after = known[3].measurement, now[3].measurement
    assert before is not None
    assert after is not None
    assert after.ratio == pytest.approx(before.ratio)
    assert "takes 1.10 of the time it took beside 9 known results" in line


def test_one_canary_beside_its_neighbours_is_noise_and_all_of_them_are_not():
    known = [timed(number, 1e-3, canary) for number, canary in enumerate(CALM)]
    known[4] = timed(4, 1e-3, 2.5e-3)
    assert change_since(known[4], known, CALM) == ""
    slower = [3 * canary for canary in CALM]
    assert change_since(known[4], known, slower).startswith("the reference kernel takes 3.00 of the time it took")


def test_only_the_stretch_whose_canary_differs_is_rescaled():
    cold = [timed(number, 1e-3, 0.8 * CALM[number]) for number in range(9)]
    like_now = [timed(20 + number, 1e-3, CALM[number], hours=1) for number in range(9)]
    now, line = as_of_now([*cold, *like_now], CALM)
    assert [each.seconds for each in now[:9]] == pytest.approx([1.25e-3] * 9)
    assert now[9:] == like_now
    assert "beside 9 known" in line


def test_results_without_canary_stay_as_they_are():
    result = toy_ok(0)
    assert result.measurement is not None
    bare = changed(result, measurement=dataclasses.replace(result.measurement, canary=None))
    assert as_of_now([bare] * 9, CALM) == ([bare] * 9, "")


def test_telemetry_is_told_in_words():
    assert describe(Telemetry()) == ""
    hot = Telemetry(clock_mhz=1410, temperature_c=83, power_w=400.2, throttle="software thermal")
    assert describe(hot) == "1,410 MHz, 83 C, 400 W, throttled: software thermal"


def test_throttled_trials_and_moving_clocks_are_warned_of():
    def at(number: int, **state: object) -> Result:
        result = toy_ok(number)
        assert result.measurement is not None
        telemetry = Telemetry(**state)  # type: ignore[arg-type]
        return changed(result, measurement=dataclasses.replace(result.measurement, telemetry=telemetry))

    assert warnings([at(0), at(1)]) == []
    assert warnings([at(0, clock_mhz=1980.0), at(1, clock_mhz=1900.0)]) == []
    throttled, moved = warnings([at(0, clock_mhz=1980.0), at(1, clock_mhz=1700.0, throttle="software power cap")])
    assert throttled.startswith("throttled in 1 of 2 trials (1 by software power cap)")
    assert "between 1,700 and 1,980 MHz" in moved


def test_canary_is_as_many_images_on_a_slower_day(monkeypatch: pytest.MonkeyPatch):
    images = []
    for seconds in (0.01, 0.3):
        monkeypatch.setattr(Bench, "time_reference", lambda *_, samples, seconds=seconds: (seconds,) * samples)
        state = WorkerState(BenchSpec(device="cpu", problem=find_layer("sp18/conv1", 50)))
        assert state.facts.reference_seconds == seconds
        images.append(state.canary.rows)
        state.device.close()
    assert images[0] == images[1]
    assert 1 <= images[0] <= 50


def test_resumed_run_says_that_the_device_is_slower_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    template = faulty("none", threads=(8, 16, 32, 64, 128, 256))
    run(tmp_path, template, trials=5)
    with sql(tmp_path / "tuner.db") as db:
        assert db.execute("select count(*) from tuner_result where canary > 0").fetchone() == (5,)
        db.execute("update tuner_result set canary = 0.001")
        medians = [statistics.median(json.loads(row[0])) for row in db.execute("select seconds from tuner_sample")]
    monkeypatch.setattr(Worker, "health", lambda worker: (0.002,) * 9)
    started, start = [], Worker.start

    def starts(worker, task, *rest):
        started.append(task)
        return start(worker, task, *rest)

    monkeypatch.setattr(Worker, "start", starts)
    report = run(tmp_path, template, trials=1)
    assert report.progress.known == 5
    assert any("takes 2.00 of the time it took beside 5 known results" in line for line in report.health)
    assert started[0].incumbent == pytest.approx(2 * min(medians))
