"""What a run says at its end: failures once with their count, why it ended, and an exit code that fits."""

from __future__ import annotations

import json
import textwrap

import pytest
from test_cli import tune
from toy_store import toy_failure

from tuner.cli.failures import MOST, kinds_of, print_failures

BROKEN = """
from tuner import KernelTemplate, Launch, Parameter, read_source

TEMPLATE = KernelTemplate(
    name="broken",
    idea="writes half of y",
    source=read_source(__file__),
    parameters=(Parameter(name="THREADS", choices=(8, 16, 32, 64), doc="threads a block"),),
    constraints=(),
    launch=lambda p, layer: Launch(grid=(-(-layer.y_size // p.THREADS), 1, 1), block=(p.THREADS, 1, 1)),
)
"""
KERNEL = """
__global__ void conv_forward(GLOBAL const float *x, GLOBAL const float *w, GLOBAL float *y, int B, int C, int H, int W,
                             int M, int K)
{
    y[blockIdx.x * blockDim.x + threadIdx.x] = 1e6f;
}
"""


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A folder with a template whose every configuration is wrong; returns the command that tunes it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text(textwrap.dedent(BROKEN))
    (tmp_path / "broken.cu").write_text(KERNEL)
    return ("run", "--layer", "C=1,H=10,W=10,M=1,K=3", "--batch", "1", "--template", "./broken.py", "--device", "cpu")


def test_run_in_which_all_fails_exits_1_and_says_which_and_why_once(broken, capsys):
    code, out, err = tune(capsys, *broken)
    assert code == 1, err
    assert out.count("wrong_result: ") == 1
    told = " ".join(out.split())
    assert "got 1000000, wanted " in told
    assert "difference 1e+06" in told
    assert "broken(THREADS=8)" in told or "THREADS=" in told
    assert "the same for 3 more" in told
    assert told.endswith("every valid configuration has been tried no winner: all 4 trials of this study failed")
    code, out, _ = tune(capsys, *broken)
    assert code == 1
    assert "the same for 3 more" in " ".join(out.split())


def test_failures_are_in_the_json_as_well(broken, capsys):
    code, out, _ = tune(capsys, *broken, "--json")
    assert code == 1
    (kind,) = json.loads(out)["failures"]
    assert (kind["outcome"], kind["trials"], kind["template"]) == ("wrong_result", 4, "broken")


def test_kinds_of_failure_differ_by_more_than_numbers():
    texts = ["9 of 12 elements are wrong", "3 of 12 elements are wrong", "x was written", "got nan, wanted 1"]
    failed = [toy_failure(number, "wrong_result", text) for number, text in enumerate(texts)]
    assert [(kind.message, kind.count) for kind in kinds_of(failed)] == [(texts[0], 2), (texts[2], 1), (texts[3], 1)]
    assert kinds_of([toy_failure(0, "timed_out", "x"), toy_failure(1, "crashed", "x")])[1].first.outcome == "crashed"


def test_many_kinds_of_failure_are_cut_short(capsys):
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    print_failures([toy_failure(number, "compile_error", text) for number, text in enumerate(words)])
    out = capsys.readouterr().out
    assert out.count("compile_error") == MOST
    assert "and 2 more in 2 other ways" in out


def test_failure_without_a_text_is_told(capsys):
    print_failures([toy_failure(0, "crashed", "")])
    assert "crashed: without a message; " in capsys.readouterr().out
