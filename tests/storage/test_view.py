"""A study as it stood when it was read: results, winner and what they are compared with, from one place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from toy_store import ENVIRONMENT, TEMPLATES, final, toy_configuration, toy_failure, toy_key, toy_ok

from tuner.errors import NoWinner, UsageError
from tuner.storage import Store, StudyHandle, read_study, view_of

NEWER = dataclasses.replace(ENVIRONMENT, driver="PoCL 6")


def filled(store: Store) -> StudyHandle:
    """Return a study with a failure, a naive baseline, a faster trial and a slower one that won the finals."""
    handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
    naive = dataclasses.replace(toy_ok(1, 8e-3), baseline="naive")
    handle.record_all([toy_failure(0, "timed_out"), naive, toy_ok(2, 1e-3)])
    newer = store.study(toy_key(), NEWER, TEMPLATES)
    newer.record(final(3, 2e-3))
    newer.set_winner(toy_configuration(3))
    return newer


def test_view_says_what_the_open_study_says(tmp_path: Path) -> None:
    with Store.open(tmp_path / "tuner.db") as store:
        handle = filled(store)
        view = view_of(handle)
        assert view.winner == handle.champion()
        assert view.results == handle.numbered()
        assert view.counts == handle.counts()
        assert list(view.counts) == ["ok", "timed_out"]
        assert view.short == handle.short
        for number, result in view.results.items():
            assert view.number_of(result.configuration) == handle.trial_number(result.configuration) == number
            assert view.measured_in[number] == handle.environment_of(result.configuration)


def test_view_outlives_its_store_and_what_is_recorded_later(tmp_path: Path) -> None:
    with Store.open(tmp_path / "tuner.db") as store:
        handle = filled(store)
        view = view_of(handle)
        handle.record(toy_failure(3, "wrong_result"))
        assert handle.champion() is None
    assert view.verified().trial == 3
    assert view.results[3].may_win
    assert read_study(tmp_path / "tuner.db", "conv2").winner is None


def test_yardstick_knows_the_naive_time_and_the_roofline(tmp_path: Path) -> None:
    with Store.open(tmp_path / "tuner.db") as store:
        view = view_of(filled(store))
    winner, yardstick = view.verified().result, view.yardstick
    assert yardstick.times_naive(winner) == pytest.approx(4, rel=0.01)
    assert yardstick.roof is not None
    assert yardstick.share_of_roof(winner) == yardstick.roof.seconds / winner.seconds
    assert yardstick.share_of_roof(view.results[0]) is None


def test_study_without_a_winner_says_what_finds_one(tmp_path: Path) -> None:
    with Store.open(tmp_path / "tuner.db") as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        with pytest.raises(NoWinner, match=r"no verified winner yet; tune run .* continues and finds it"):
            view_of(handle).verified()
        with pytest.raises(UsageError, match="no trial 7; it has none yet; tune show conv2"):
            view_of(handle).trial(7)
        handle.record_all([toy_failure(0, "timed_out"), toy_failure(1, "crashed")])
        view = view_of(handle)
        with pytest.raises(NoWinner, match="all 2 trials failed; tune show conv2 --failures"):
            view.verified()
        with pytest.raises(UsageError, match="no trial 7; it has 2, from 0 to 1;"):
            view.trial(7)
