"""Noise above 5% is told with its cause; a card at its own power limit is no cause."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from faulty import faulty
from small_run import run
from stand_in import InstantCompiler, InstantWorker

from tuner.bench.protocol import Heat, Task
from tuner.bench.telemetry import disturbing
from tuner.results import Telemetry
from tuner.tuning import disturbance, pipeline, rematch, session
from tuner.tuning.disturbance import Surroundings, noise_line, others_running, surroundings

BUSY = Surroundings(load=5.2, running=4, cores=2)


def test_noise_is_told_with_its_causes() -> None:
    assert noise_line(0.05, BUSY) == ""
    assert "noise of 12%, above 5%: 4 other processes want the 2 cores, load average 5.2; " in noise_line(0.12, BUSY)
    slow = dataclasses.replace(BUSY, running=0, canary=1.4, throttle="software power cap, hardware slowdown")
    said = noise_line(0.12, slow)
    assert "the reference kernel takes 1.40 of its time before the search; throttled by hardware slowdown; " in said
    assert "no cause was seen" in noise_line(0.12, Surroundings(canary=1.02))
    assert "no cause was seen" in noise_line(0.12, None)


def test_a_card_at_its_own_power_limit_is_not_disturbed() -> None:
    assert disturbing("software power cap") == disturbing("") == ""
    assert disturbing("software thermal, software power cap") == "software thermal"


def test_other_processes_are_counted_without_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbance, "BETWEEN", 0.0)
    source = tmp_path / "loadavg"
    source.write_text("5.20 3.1 2.0 5/321 4711\n")
    assert others_running(source) == 4
    source.write_text("0.20 0.1 0.0 1/321 4711\n")
    assert others_running(source) == 0
    assert others_running(tmp_path / "none") == 0
    assert surroundings([1.0, 2.0, 3.0], 3.0).canary == pytest.approx(1.5)
    assert surroundings([], 3.0).canary is None


class Shaky(InstantWorker):
    """Both configurations take the same time, give or take a half; the simpler one a little longer."""

    longest = 0

    def seconds_of(self, source: str) -> float:
        return 1.0

    def telemetry(self) -> Telemetry:
        return Telemetry(throttle="hardware thermal")

    def finals(self, tasks: list[Task], heat: Heat, unless: object = False) -> list[tuple[float, ...]]:
        Shaky.longest = max(Shaky.longest, heat.most)
        times = [1.0 if "#define THREADS 64\n" in task.rendered.source else 1.02 for task in tasks]
        return [tuple(each * self.chance.uniform(0.5, 1.5) for _ in range(heat.most)) for each in times]


def test_noisy_finals_are_longer_and_no_tie_is_broken_by_simplicity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "Compiler", InstantCompiler)
    monkeypatch.setattr(session, "Worker", lambda *_: Shaky(0))
    monkeypatch.setattr(rematch, "surroundings", lambda *_: BUSY)
    report = run(tmp_path, faulty("none", threads=(8, 64)))
    assert Shaky.longest == 90
    settled = [each.result for each in report.best if each.tied]
    assert len(settled) == 2
    assert report.winner is min(settled, key=lambda result: result.seconds)
    (line,) = (each for each in report.finals if "noise of" in each)
    assert "4 other processes want the 2 cores, load average 5.2; throttled by hardware thermal; " in line
