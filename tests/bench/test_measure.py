"""How many launches a trial is given: few where more would tell nothing, none less where they would."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pocl_harness import CPU_LIMITS

from tuner.bench.protocol import Protocol, Task
from tuner.bench.trial import Trial
from tuner.kernels.loading import builtin_templates
from tuner.kernels.render import render
from tuner.kernels.space import enumerate_space
from tuner.kernels.template import OPENCL
from tuner.problems.conv.layers import NAIVE, find_layer
from tuner.results import Telemetry
from tuner.tuning.proposals import baselines, in_turn

LAYER = find_layer("conv2", 10)


class Timed(Trial):
    """A trial whose launches take what they are told to; nothing runs."""

    def __init__(self, seconds: float, *, prune: bool = True, first: float | None = None) -> None:
        direct = builtin_templates()["direct"]
        rendered = render(direct, direct.configuration({}), LAYER, OPENCL)
        self.task = Task(binary=b"", rendered=rendered, incumbent=1.0, prune=prune)
        self.protocol, self.repeat, self.seconds, self.launches = Protocol(seconds=1e9), 1, seconds, 0
        self.verified: list[int] = []
        self.first = seconds if first is None else first
        self.device = SimpleNamespace(timer_resolution=1e-9, telemetry=Telemetry)

    def sample(self, inputs: object = None) -> float:
        self.launches += 1
        return self.seconds * (1 + 1e-3 * (self.launches % 3))

    def verify(self) -> float:
        self.verified.append(self.launches)
        return 0.0


@pytest.mark.parametrize(
    ("trial", "samples", "pruned"),
    [
        (Timed(6.0), 1, True),
        (Timed(6.0, prune=False), 2, False),
        (Timed(4.0), 3, True),
        (Timed(4.0, prune=False), 7, False),
        (Timed(1.1), 7, False),
        (Timed(1.1, first=9.0), 7, False),  # the first launch alone was slow
        (Timed(6.0, first=1.1), 3, True),  # the second alone, as far as is known
    ],
    ids=["hopeless", "hopeless baseline", "slower", "slower baseline", "near", "slow at first", "slow at second"],
)
def test_samples_of_a_trial(trial: Timed, samples: int, pruned: bool) -> None:
    measurement = trial.measure(None)
    assert len(measurement.samples) == samples
    assert measurement.pruned is pruned
    assert trial.launches == samples + (0 if len(measurement.samples) < 3 else 1)


def test_naive_baseline_and_the_start_are_measured_before_the_walk() -> None:
    space = enumerate_space(list(builtin_templates().values()), LAYER, CPU_LIMITS)
    turn, named = in_turn(space), baselines(space)
    starts = [name for _, name in named if name.startswith("CPU start")]
    assert [name for _, name in turn[: 1 + len(starts)]] == [NAIVE, *starts]
    assert turn[1 + len(starts) :] == [each for each in named if each[1] not in (NAIVE, *starts)]


def test_launches_that_are_checked_cannot_be_foreseen() -> None:
    seen = []
    for _ in range(200):
        trial = Timed(1.1)
        trial.measure(None)
        timed = [launch - 1 for launch in trial.verified]  # the first launch warms up
        assert len(set(timed)) >= 3
        assert max(timed) >= 6  # one of the last two of seven
        seen.append(tuple(timed))
    assert all(
        any(launch in each for each in seen) and any(launch not in each for each in seen) for launch in range(1, 8)
    )
    assert len(set(seen)) > 20
