"""No cheat wins that knows how benches are made, whatever it is that they have in common."""

from __future__ import annotations

import numpy as np
import pytest
from ruses import HONEST, ON_CPU, ON_CUDA, RUSES, scheming
from small_run import run

from tuner.bench.bench import Bench
from tuner.devices import compile_source, open_device
from tuner.devices.apart import apart, read_only
from tuner.kernels.launch import Launch
from tuner.problems.conv.layers import find_layer
from tuner.storage import Store

LAYER = find_layer("C=2,H=12,W=11,M=3,K=3", batch=24)
FAULTS = ("writes_far_behind_y", "reads_far_behind_w", "kept_far_before_x", "changes_x_meanwhile")


@pytest.mark.parametrize(
    ("device", "ruses"), [("cpu", (*RUSES, *ON_CPU)), pytest.param("cuda:0", (*RUSES, *ON_CUDA), marks=pytest.mark.gpu)]
)
def test_nobody_wins_who_knows_the_bench(tmp_path, device, ruses):
    report = run(tmp_path, scheming(*ruses), problem=LAYER, device=device)
    assert report.reason == "exhausted"
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as store:
        results = store.find_study(report.progress.study).results()
    found = {str(each.configuration.as_dict()["RUSE"]): each.outcome for each in results}
    assert report.winner is not None
    assert report.winner.configuration.as_dict()["RUSE"] == HONEST, found
    right = dict.fromkeys(ruses, "wrong_result") | {each: "crashed" for each in FAULTS if each in ruses}
    right |= {each: "infeasible" for each in ON_CUDA if each in ruses}
    assert found == {HONEST: "ok"} | right


def test_what_a_block_leaves_in_much_shared_memory_is_gone():
    """PoCL's threads keep theirs for as long as they live."""
    device, source = (
        open_device("cpu"),
        """
        __kernel void conv_forward(__global uint *out)
        {
            __local uint words[65536];
            volatile __local uint *last = words + 65535;
            out[get_group_id(0)] = *last;
            *last = 12345;
        }""",
    )
    bench, launch = Bench(device, LAYER), Launch(grid=(64, 1, 1), block=(1, 1, 1))
    kernel = device.load(compile_source(device.environment, source), "conv_forward", launch)
    new = []
    for scoured in (
        0,
        0,
        0,
        *20 * (kernel.resources.shared_bytes or 0,),
    ):  # a thread may find nothing to do at one time
        bench.scour(scoured)
        device.launch(kernel, launch, (bench.y,))
        new.append((device.download(bench.y, np.uint32, 64) != 12345).sum())
    device.close()
    assert max(new[1:3]) <= device.cores - 1  # one that had nothing to do before
    assert sum(new[3:]) >= 10


def test_memory_apart_is_zeros_that_can_be_written_and_goes_with_its_last_user():
    pages = apart(1 << 16)
    assert pages is not None
    assert not pages.any()
    begin, nbytes = pages.ctypes.data, pages.nbytes
    with read_only([pages]):
        assert _permissions(begin, nbytes) == "r--p"
        assert _permissions(begin + nbytes, 1) == "---p"
    pages[:] = 1
    assert _permissions(begin - 1, 1) == "---p"
    del pages
    assert _permissions(begin, nbytes) == ""


def _permissions(begin: int, nbytes: int) -> str:
    """Return what this process may do with a part of its memory; nothing where there is none."""
    with open("/proc/self/maps", encoding="ascii") as lines:
        for line in lines:
            where, permissions, *_ = line.split()
            first, end = (int(number, 16) for number in where.split("-"))
            if first <= begin and begin + nbytes <= end:
                return permissions
    return ""
