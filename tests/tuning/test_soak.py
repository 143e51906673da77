"""Real runs, killed: the short form of ``python tests/support/soak.py``."""

from __future__ import annotations

from soak import soak


def test_no_reported_trial_is_lost_or_repeated_after_kill_nine():
    assert soak(kills=3, seed=20170712) > 0
