"""Resources are predicted from compiled neighbours; hopeless proposals wait, and nothing is lost by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from pocl_harness import CPU_LIMITS
from templates import CUDA_LIMITS
from toy_store import changed, timed

from tuner.cli.support.report import filter_lines
from tuner.cli.support.report_json import filter_json
from tuner.kernels.loading import builtin_templates
from tuner.kernels.space import Space, enumerate_space
from tuner.kernels.template import Configuration, Constraint, KernelTemplate, Launch, Parameter
from tuner.problems.conv.layers import LAYERS
from tuner.results import Resources, Result
from tuner.search.candidates import Candidates
from tuner.search.resource_model import Demand, demand_of, register_limit, resident_warps
from tuner.search.samplers.factory import make_sampler
from tuner.tuning.proposals import ProposalQueue
from tuner.tuning.resource_filter import AUDIT_EVERY, IDLE, LEAST_KNOWN, SPILLS, FilterStats, ResourceFilter

LAYER = LAYERS["fa17/conv1"]
Truth = Callable[[Configuration], float]


def toy(limits=CUDA_LIMITS) -> Space:
    """560 configurations; a block takes SHARED_BYTES."""
    template = KernelTemplate(
        name="toy",
        idea="",
        source="",
        parameters=(
            Parameter(name="TILE", choices=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32), doc=""),
            Parameter(name="DEPTH", choices=(1, 2, 3, 4, 6, 8, 12), doc=""),
            Parameter(name="THREADS", choices=(32, 64, 128, 256), doc=""),
            Parameter(name="SHARED_BYTES", choices=(1024, 120_000), doc=""),
        ),
        constraints=(Constraint("any", lambda p, layer, limits: p.TILE > 0, ""),),
        launch=lambda p, layer: Launch(grid=(1, 1, 1), block=(p.THREADS, 1, 1), shared_bytes=p.SHARED_BYTES),
    )
    return enumerate_space([template], LAYER, limits)


def numbers(configuration: Configuration) -> dict[str, int]:
    return {name: value for name, value in configuration.values if isinstance(value, int)}


def registers(configuration: Configuration) -> float:
    values = numbers(configuration)
    return 20 + values["TILE"] * values["DEPTH"] * 1.5


def result_of(configuration: Configuration, demand: float, limit: int = 255) -> Result:
    held = min(demand, limit)
    resources = Resources(registers=int(held), local_bytes=int(4 * (demand - held)), shared_bytes=0)
    return changed(timed(configuration, demand, demand), resources=resources)


class Grants:
    """A study that grants every claim."""

    def claim(self, configurations, stage):
        return configurations


def drain(space: Space, truth: Truth, resource_filter: ResourceFilter) -> list[Configuration]:
    """Empty a queue of proposals and return what it handed out, in order."""
    candidates = Candidates.of(space)
    proposals = ProposalQueue(space, make_sampler("random", candidates, 5), resource_filter, Grants(), ())  # type: ignore[arg-type]
    order = []
    while taken := proposals.take(4):
        for configuration, _ in taken:
            order.append(configuration)
            proposals.learn(result_of(configuration, truth(configuration)))
    return order


@pytest.mark.parametrize(
    ("threads", "used", "shared", "warps"),
    [(256, 64, 0, 32), (256, 65, 0, 24), (1024, 64, 0, 32), (32, 255, 0, 8), (32, 32, 0, 32), (64, 16, 120_000, 2)],
)
def test_resident_warps_follow_registers_shared_memory_and_blocks(threads, used, shared, warps):
    launch = Launch(grid=(1, 1, 1), block=(threads, 1, 1), shared_bytes=shared)
    assert resident_warps(launch, used, CUDA_LIMITS) == warps


@pytest.mark.parametrize(
    ("threads", "used", "warps"),
    [(64, 200, 8), (160, 200, 5), (192, 102, 12)],  # 10, 10 and 18 if registers were not a partition's own
)
def test_resident_warps_leave_over_what_a_partition_cannot_give(threads, used, warps):
    assert resident_warps(Launch(grid=(1, 1, 1), block=(threads, 1, 1)), used, CUDA_LIMITS) == warps


@pytest.mark.parametrize(("blocks", "limit"), [(1, 128), (2, 64)])
def test_register_limit_follows_the_resident_blocks_asked_for(blocks, limit):
    configuration = Configuration(template="t", values=(("MIN_BLOCKS", blocks),))
    assert register_limit(configuration, Launch(grid=(1, 1, 1), block=(512, 1, 1)), CUDA_LIMITS) == limit


def test_demand_counts_spilled_words_and_is_unknown_without_registers():
    assert demand_of(Resources(registers=255, local_bytes=40)) == 265
    assert demand_of(Resources()) is None


def test_demand_is_predicted_from_neighbours_of_a_real_space():
    space = enumerate_space([builtin_templates()["register_tile"]], LAYER, CUDA_LIMITS)
    demand, rows = Demand(Candidates.of(space)), np.random.default_rng(3).integers(0, len(space), 140)

    def tile(row: int) -> float:
        values = numbers(space[row])
        return 30 + values["TILE_W"] * values["TILE_H"] * values["TILE_M"] * (1.2 if values["MIN_BLOCKS"] == 1 else 1)

    for row in rows[:100]:
        demand.learn(int(row), tile(int(row)))
    expected, deviation = demand.predict(rows[100:].tolist())
    errors = np.abs(expected - np.log2([tile(int(row)) for row in rows[100:]]))
    assert np.median(errors) < 0.1
    assert np.all(deviation > 0)


def test_hopeless_proposals_wait_until_nothing_else_is_left():
    space = toy()
    resource_filter = ResourceFilter(space, Candidates.of(space))
    order = drain(space, registers, resource_filter)
    assert len(order) == len({each.key for each in order}) == len(space)
    seen = resource_filter.stats
    assert seen.dropped[SPILLS] > 20
    assert seen.dropped[IDLE] > 100
    last = order[-sum(seen.dropped.values()) :]
    hopeless = [each for each in last if registers(each) > 255 + 32 or numbers(each)["SHARED_BYTES"] > 100_000]
    assert len(hopeless) >= 0.9 * len(last)
    assert seen.tried >= sum(seen.dropped.values()) // AUDIT_EVERY
    assert seen.wrong <= 0.2 * seen.tried
    assert seen.median_error < 8


def test_predictions_that_fail_drop_no_spills():
    space = toy()
    chance = np.random.default_rng(1)
    resource_filter = ResourceFilter(space, Candidates.of(space))
    order = drain(space, lambda configuration: float(chance.choice([40, 900])), resource_filter)
    assert len(order) == len(space)
    assert resource_filter.stats.dropped[SPILLS] == 0
    assert resource_filter.stats.error_of_90_percent > 100


def test_a_device_without_registers_is_left_alone():
    space = toy(replace(CPU_LIMITS))
    resource_filter = ResourceFilter(space, Candidates.of(space))
    order = drain(space, registers, resource_filter)
    assert len(order) == len(space)
    assert resource_filter.stats == FilterStats()
    assert filter_lines(resource_filter.stats, None) == []


def test_few_results_predict_nothing_and_known_ones_teach():
    space = toy()
    resource_filter = ResourceFilter(space, Candidates.of(space))
    rows = [row for row in range(len(space)) if space[row].as_dict()["SHARED_BYTES"] == 1024]
    for row in rows[: LEAST_KNOWN - 1]:
        assert resource_filter.keep([row]) == [row]
        resource_filter.learn(row, result_of(space[row], registers(space[row])))
    assert resource_filter.stats.errors == []
    for row in rows[LEAST_KNOWN - 1 : LEAST_KNOWN + 2]:
        resource_filter.keep([row])
        resource_filter.learn(row, result_of(space[row], registers(space[row])))
    assert len(resource_filter.stats.errors) == 2


def test_report_says_what_was_dropped_and_how_often_wrongly():
    winner = result_of(space_first(), 2.0)
    seen = FilterStats(
        dropped={SPILLS: 12, IDLE: 3}, errors=[-4.0, 2.0, 30.0], warps_right=2, tried=4, wrong=1, fastest=3
    )
    errors, dropped = filter_lines(seen, winner)
    assert "register prediction, 3 kernels: median error 4, 90th percentile " in errors
    assert "right in 67%" in errors
    assert "12 that would spill, 3 with under 4 warps; 4 compiled anyway as an audit, 1 mispredicted" in dropped
    assert "fastest 1.50x the best" in dropped
    plain = filter_json(seen, winner)
    assert plain["dropped"] == {"spills": 12, "idle": 3}
    assert plain["wrongly_hopeless"] == 1
    assert plain["fastest_hopeless_over_best"] == 1.5
    assert filter_json(FilterStats(), None)["median_register_error"] is None


def space_first() -> Configuration:
    return toy()[0]
