"""A sampler in a process of its own: its guarantees, its death, and how much it prepares."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty import OUTCOMES, faulty
from small_run import SIZES, run
from toy_candidates import product

from tuner.bench.worker import Worker
from tuner.errors import TunerError
from tuner.search.samplers import background as module
from tuner.search.samplers.background import BackgroundSampler
from tuner.search.samplers.factory import sampler_for_run
from tuner.search.samplers.settings import HURRIED
from tuner.search.samplers.surrogate import SurrogateSampler
from tuner.storage import Store

CANDIDATES = product((4, 5, 3))


@pytest.fixture
def sampler() -> Iterator[BackgroundSampler]:
    ahead = BackgroundSampler(partial(sampler_for_run, "surrogate", CANDIDATES, 0, None))
    yield ahead
    ahead.close()


def seconds(row: int) -> float:
    return 1.0 + 0.1 * float(CANDIDATES.choices[row].sum())


def wait_until_ready(ahead: BackgroundSampler) -> None:
    deadline = time.monotonic() + 300
    while not ahead.has_some() and time.monotonic() < deadline:
        time.sleep(0.005)


def kill_process(ahead: BackgroundSampler) -> None:
    pid = ahead._processes.schedule(os.getpid, limit=300.0).result()
    os.kill(pid, signal.SIGKILL)


def test_every_row_is_proposed_once_and_then_none(sampler: BackgroundSampler) -> None:
    rows: list[int] = []
    while proposed := sampler.propose(7):
        assert len(proposed) <= 7
        for row in proposed:
            sampler.observe(row, seconds(row))
        rows += proposed
    assert sorted(rows) == list(range(len(CANDIDATES)))
    assert sampler.has_some()  # it answers at once: that there is nothing


def test_what_others_took_is_not_proposed_though_it_lay_ready(sampler: BackgroundSampler) -> None:
    for row in sampler.propose(1):
        sampler.observe(row, seconds(row))
    wait_until_ready(sampler)
    ready = set(sampler._ready)
    assert ready
    for row in ready:
        sampler.skip(row)
    rest: set[int] = set()
    while proposed := sampler.propose(5):
        rest.update(proposed)
    assert not rest & ready
    assert len(rest) == len(CANDIDATES) - 1 - len(ready)


def test_it_learns_what_it_is_told() -> None:
    candidates = product((8, 8, 8))
    ahead = BackgroundSampler(partial(sampler_for_run, "surrogate", candidates, 1, None))
    try:
        tried = []
        for _ in range(60):
            (row,) = ahead.propose(1)
            tried.append(row)
            ahead.observe(row, 1.0 + float(((candidates.choices[row].astype(int) - 5) ** 2).sum()))
        optimum = candidates.find(np.array([5, 5, 5], dtype=np.uint8))
        assert optimum in tried  # a random search of 60 would have it in one of eight runs
    finally:
        ahead.close()


def test_a_killed_process_costs_no_proposal_and_repeats_none(sampler: BackgroundSampler) -> None:
    rows = sampler.propose(1)
    for row in rows:
        sampler.observe(row, seconds(row))
    rows += sampler.propose(1)  # still without a result when the process dies
    kill_process(sampler)
    while proposed := sampler.propose(4):
        rows += proposed
    assert sorted(rows) == list(range(len(CANDIDATES)))


def test_a_process_that_dies_each_time_ends_the_run_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DEATHS", 2)
    ahead = BackgroundSampler(partial(os._exit, 3))
    try:
        with pytest.raises(TunerError, match=r"^sampler: its process died 2 times .*--sampler random$"):
            ahead.propose(1)
    finally:
        ahead.close()


def test_more_is_ordered_where_compilers_wait_and_less_where_they_do_not(sampler: BackgroundSampler) -> None:
    for row in range(3):
        sampler.observe(row, seconds(row))
        sampler.has_some(hurry=True)
        sampler._receive(wait=True)
        sampler._ready.clear()
    assert sampler._number > 1
    for _ in range(10 * module.ENOUGH):
        sampler.has_some()
    assert sampler._number == 1


def test_rows_of_one_look_differ_in_more_than_one_parameter() -> None:
    candidates = product((6, 6, 6, 6))
    sampler = SurrogateSampler(candidates, 0, HURRIED)
    for row in sampler.propose(12):
        sampler.observe(row, 1.0 + 0.1 * float(candidates.choices[row].sum()))
    rows = sampler.propose(20)
    looks = [rows[start : start + 5] for start in range(0, 20, 5)]
    assert len(set(rows)) == 20
    for look in looks:
        chosen = candidates.choices[look]
        apart = np.count_nonzero(chosen[:, None] != chosen[None], axis=2)
        assert apart[np.triu_indices(len(look), 1)].min() > 1


def test_run_whose_device_works_beside_it_stores_every_outcome_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU, taken for a device of its own: proposals come ahead, results are stored while the next one runs."""
    prepare = Worker.__init__

    def beside(worker: Worker, *given: Any) -> None:
        prepare(worker, *given)
        worker.facts = replace(worker.facts, shares_host=False)

    monkeypatch.setattr(Worker, "__init__", beside)
    faults = ("none", "off_by_one", "wild_pointer", "hash_error", "no_images", "after_y")
    report = run(tmp_path, faulty(*faults, threads=SIZES), sampler="surrogate", jobs=2)
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as store:
        handle = store.find_study(report.progress.study)
        results, claims = handle.results(), handle.claims()
    assert report.reason == "exhausted"
    outcomes = sorted(result.outcome for result in results if result.configuration.as_dict()["FAULT"] != "none")
    assert outcomes == sorted(OUTCOMES[fault] for fault in faults[1:])
    assert len(results) == report.progress.done == len(faults) + len(SIZES) - 1
    assert claims == []
    assert report.winner is not None
