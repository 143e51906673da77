"""Recorded spaces are read or refused in one line, and replays count what they should."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.errors import UsageError
from tuner.recordings.scores import Curve, summarise, table
from tuner.recordings.simulate import Plan, replay, simulate
from tuner.recordings.space import Recorded, load_recorded
from tuner.report.curves import curve_text

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writing(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return writing


def bowl() -> str:
    """A space of 8 x 5 x 3 with its optimum at block 64, tile 3, mode row, and a failing corner."""
    lines = ["block,tile,mode,time_ms,status,rel_std,compile_ms"]
    for block in (1, 2, 4, 8, 16, 32, 64, 96):
        for tile in range(1, 6):
            for mode in ("row", "column", "both"):
                time = 1 + abs(np.log2(block / 64)) + 0.4 * abs(tile - 3) + 0.7 * (mode != "row")
                failed = block * tile > 300
                lines.append(f"{block},{tile},{mode},{'' if failed else time},{'Runtime' if failed else 'ok'},0.01,900")
    return "\n".join(lines) + "\n"


CACHE = {
    "device_name": "a device",
    "kernel_name": "k",
    "tune_params_keys": ["x", "flag"],
    "tune_params": {"x": [1, 2], "flag": [True, False]},
    "cache": {
        "1,True": {"x": 1, "flag": True, "time": 2.0, "times": [1.9, 2.1], "compile_time": 500.0},
        "1,False": {"x": 1, "flag": False, "time": "RuntimeFailedConfig"},
        "2,True": {"x": 2, "flag": True, "time": 1.0, "times": [1.0]},
        "2,False": {"x": 2, "flag": False, "time": "InvalidConfig"},
    },
}
T4 = {
    "schema_version": "1.0.0",
    "results": [
        {
            "configuration": {"x": x},
            "times": {"compilation": 100, "runtimes": [x, x]},
            "invalidity": "compile" if x == 3 else "constraints" if x == 4 else "correct",
            "correctness": 1,
            "measurements": [{"name": "time", "value": float(x), "unit": "ms"}],
            "objectives": ["time"],
        }
        for x in (1, 2, 3, 4, 1)
    ],
}


@pytest.mark.parametrize("name", ["bowl.csv", "bowl.csv.gz"])
def test_csv_is_read_plain_and_compressed(write: Write, name: str) -> None:
    space = load_recorded(write(name, bowl()))
    assert (space.name, len(space.candidates)) == ("bowl", 120)
    assert space.best == pytest.approx(1e-3)
    assert np.isnan(space.seconds).sum() == 9
    assert space.compile_seconds[0] == pytest.approx(0.9)
    assert [axis.name for axis in space.candidates.axes] == ["block", "tile", "mode"]


@pytest.mark.parametrize("closed", [True, False])
def test_kernel_tuner_cache_is_read_when_closed_or_still_open(write: Write, closed: bool) -> None:
    text = json.dumps(CACHE)
    space = load_recorded(write("cache.json", text if closed else text.removesuffix("}}") + ",\n"))
    assert len(space.candidates) == 3  # what its constraints excluded is no candidate
    assert space.best == pytest.approx(1e-3)
    assert np.isnan(space.seconds).sum() == 1


def test_t4_results_are_read_and_a_repeated_one_counts_once(write: Write) -> None:
    space = load_recorded(write("t4.json", json.dumps(T4)))
    assert space.seconds[:2] == pytest.approx([1e-3, 2e-3])
    assert np.isnan(space.seconds[2])
    assert len(space.candidates) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no column time_ms"),
        ("x,time\n1,2\n", "no column time_ms among x, time"),
        ("time_ms\n1\n", "no parameter column"),
        ("x,time_ms\n", "no configurations"),
        ("x,time_ms\n1,\n2,\n", "every configuration failed"),
        ("x,time_ms\n1,-3\n", "line 2: the time is -3.0 ms"),
        ("x,time_ms\n1,0\n", "line 2: the time is 0.0 ms"),
        ("x,time_ms\n1,inf\n", "line 2: the time is inf ms"),
        ("x,time_ms\n1,nan\n", "line 2: the time is nan ms"),
        ("x,time_ms\n1,fast\n", "line 2: time_ms is 'fast'"),
        ("# a\n# b\nx,time_ms\n1,2\n1,-3\n", "line 5: the time is -3.0 ms"),
        ("x,y,time_ms\n1,,2\n", "line 2: y is empty"),
        ("template,x,time_ms\n,1,2\n", "line 2: template is empty"),
        ("template,time_ms\na,2\n", "no parameter column"),
        ("x,time_ms\n1,2\n1,3\n", "line 3 repeats the configuration of line 2"),
        ("x,time_ms\n1,2,3\n", "line 2: 2 columns expected"),
        ("x,y,time_ms\n1,2\n", "line 2: 3 columns expected"),
        ("x,time_ms,rel_std\n1,2,-1\n", "line 2: the relative deviation"),
        ("x,time_ms\n" + "".join(f"{x},1\n" for x in range(300)), "300 choices"),
    ],
)
def test_bad_csv_is_refused_in_one_line(write: Write, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_recorded(write("space.csv", text))
    assert says in str(caught.value)
    assert "space.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"cache": {}}', '{"results": [1]}', '{"results": []}'])
def test_bad_json_is_refused_in_one_line(write: Write, text: str) -> None:
    with pytest.raises(UsageError, match=r"space\.json"):
        load_recorded(write("space.json", text))


def test_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(bowl().encode())
    damaged = {"cut.csv.gz": whole[:60], "torn.csv.gz": whole[:40] + bytes(40) + whole[80:], "wide.csv": b"x\xff,1"}
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
    for name in ("none.csv", *damaged):
        with pytest.raises(UsageError, match=rf"{name}: cannot be read \(.+\); give a recording") as caught:
            load_recorded(tmp_path / name)
        assert str(caught.value).count(name) == 1


@pytest.mark.parametrize("text", ["x,time_ms\n1,2\n", "x,time_ms\n1,2\n2,\n", "x,y,time_ms\n1,1,2\n1,2,2\n2,1,2\n"])
@pytest.mark.parametrize("sampler", ["surrogate", "random"])
def test_one_valid_configuration_or_constant_times_are_handled(write: Write, text: str, sampler: str) -> None:
    curve = simulate(load_recorded(write("tiny.csv", text)), sampler, 10, 0)
    assert curve.ratios[-1] == 1
    assert len(curve.ratios) == 10


def test_curve_counts_evaluations_and_a_miss_as_one_more() -> None:
    curve = Curve(ratios=np.array([2.0, 1.04, 1.04, 1.02]), proposals=np.zeros(4))
    assert (curve.reaches(0.05), curve.reaches(0.01)) == (2, 5)


def test_column_without_a_value_is_no_parameter(write: Write) -> None:
    first, *lines = bowl().splitlines()
    lines = [f"template,empty,{first}", *(f"bowl,,{line}" for line in lines)]
    space = load_recorded(write("bowl.csv", "\n".join(lines) + "\n"))
    assert [axis.name for axis in space.candidates.axes] == ["block", "tile", "mode"]


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "studies").glob("*.csv.gz")), ids=lambda p: p.name)
def test_recorded_space_of_our_own_layer_is_replayed(path: Path) -> None:
    space = load_recorded(path)
    assert len(space.seconds) >= 1_500
    best = float(np.nanmin(space.seconds))
    assert min(simulate(space, "surrogate", trials=60, seed=0, batch=1).ratios) < 1.3
    assert best > 0


def test_failures_count_as_evaluations(write: Write) -> None:
    space = load_recorded(write("space.csv", "x,time_ms\n" + "".join(f"{x},\n" for x in range(1, 9)) + "9,1\n"))
    curve = simulate(space, "random", 9, 1)
    assert curve.ratios.shape == (9,)
    assert len(curve.proposals) == curve.reaches(0.01)


@pytest.mark.parametrize("batch", [1, 8])
def test_surrogate_beats_random_on_a_bowl(write: Write, batch: int) -> None:
    path = write("bowl.csv", bowl())
    ours = replay([path], "surrogate", 60, 3, batch)[0]
    chance = replay([path], "random", 60, 3, batch)[0]
    assert ours.to_1 < min(40, chance.to_1)


def test_noise_is_told_but_the_truth_is_judged(write: Write) -> None:
    space: Recorded = load_recorded(write("bowl.csv", bowl()))
    noisy = space.noisy(1)
    assert np.nanmax(np.abs(noisy.measured / space.seconds - 1)) > 0.005
    assert simulate(noisy, "anneal", 120, 0).ratios[-1] == 1


def test_table_names_each_space_and_the_mean(write: Write) -> None:
    path = write("bowl.csv", bowl())
    summary, curves = replay([path], "grid", 60, 2, 1)
    assert "bowl" in table(summary)
    assert "geometric mean" in table(summary)
    assert summarise(load_recorded(path), curves[0]) == summary.scores[0]
    assert "evaluations" in curve_text(curves[0])


@pytest.mark.parametrize("field", ["trials", "batch", "seeds"])
def test_zero_trials_batch_or_seeds_are_refused(field: str) -> None:
    none: dict[str, Any] = {field: 0}
    with pytest.raises(UsageError, match=f"--{field} 0"):
        Plan(**none)


def test_benchmark_reruns_all_seeds_and_holds_kernels_out(write: Write) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "search.py"
    paths = [str(write("bowl_a.csv", bowl())), str(write("dish_b.csv", bowl()))]
    from_source = {**os.environ, "PYTHONPATH": str(script.parents[2])}
    command = [sys.executable, str(script), *paths, "--seeds", "2", "--trials", "30", "--least", "5", "--batch", "4"]
    command += ["--methods", "surrogate", "tpe", "--held-out", "--jobs", "1"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, env=from_source)
    ours, peer = json.loads(done.stdout)
    assert (ours["sampler"], peer["sampler"]) == ("surrogate, held out by kernel", "tpe")
    assert [score["space"] for score in ours["scores"]] == ["bowl_a", "dish_b"]
    assert ours["seeds"] == 2
    assert 0 < ours["to_1"] <= 31
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=from_source).stdout
    assert f"to 1% {ours['to_1']:.1f} (target" in said
    assert "times our evaluations to 1%" in said
