"""What a run says at its end: failures once with their count, why it ended, and an exit code that fits."""

from __future__ import annotations

import json
import textwrap

import pytest
from command import tune
from toy_store import toy_failure

from tuner.cli.support.failures import MOST, kinds_of, print_failures
from tuner.devices.diagnostics import excerpt
from tuner.errors import StoreFull
from tuner.results import Result
from tuner.storage import StudyHandle

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


def test_numbers_of_either_sign_are_the_same_kind():
    text = (
        "{} of 64 elements are wrong, largest difference {}; first at (b, m, h, w) = (0, {}, 0, 0): got {}, wanted {}, "
        "difference {}; tolerance 1.2e-05"
    )
    numbers = [("1,024", 3, 0, "-0.25", "1.5", "1.75"), (7, "2e-05", 1, "0.25", "-1e-05", 2), (8, 4, 2, "-nan", 1, 0)]
    failed = [toy_failure(at, "wrong_result", text.format(*each)) for at, each in enumerate(numbers)]
    assert [kind.count for kind in kinds_of(failed)] == [3]
    assert len(kinds_of([toy_failure(0, "crashed", "name x1-a"), toy_failure(1, "crashed", "name x1 a")])) == 2


SHOWN = """mine.cu:9:17: error: use of undeclared identifier 'zero'
    float sum =  zero;
                ^
mine.cu:11:1: error: x"""


def test_users_line_that_does_not_compile_is_shown_with_its_caret(capsys):
    failed = [toy_failure(number, "compile_error", SHOWN) for number in range(3)]
    print_failures([*failed, toy_failure(3, "compile_error", "clBuildProgram failed\nmore\n   ^\n")])
    out = capsys.readouterr().out.splitlines()
    at = out.index("  compile_error: mine.cu:9:17: error: use of undeclared identifier 'zero'")
    assert out[at + 1 : at + 3] == ["        float sum =  zero;", "                    ^"]
    assert out[at + 3].startswith("    toy TILE_WIDTH=8")
    told = " ".join(" ".join(out).split())
    assert "the same for 2 more" in told
    assert "mine.cu:11" not in told
    assert "clBuildProgram failed; toy TILE" in told
    assert "more ^" not in told


def test_place_without_a_caret_is_shown_with_its_line_alone():
    assert excerpt("mine.cu(9)") == ()
    assert excerpt("") == ()
    assert excerpt("mine.cu:9: error: no\n  a line") == ("  a line",)
    assert excerpt("mine.cu:9: error: no\nmine.cu:10: error: neither") == ()


def test_run_shows_the_users_line_that_does_not_compile(broken, capsys, tmp_path):
    (tmp_path / "broken.cu").write_text(KERNEL.replace("1e6f", "zero"))
    code, out, err = tune(capsys, *broken)
    assert code == 1, err
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if "compile_error: broken.cu:5:" in line)
    shown = next(line for line in lines[at:] if "] = zero;" in line)
    caret = lines[lines.index(shown) + 1]
    assert shown[caret.index("^") :].startswith("zero;")
    assert "clBuildProgram" not in out
    assert "Spelling" not in out


def test_many_kinds_of_failure_are_cut_short(capsys):
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    print_failures([toy_failure(number, "compile_error", text) for number, text in enumerate(words)])
    out = capsys.readouterr().out
    assert out.count("compile_error") == MOST
    assert "and 2 more in 2 other ways" in out


def test_failure_without_a_text_is_told(capsys):
    print_failures([toy_failure(0, "crashed", "")])
    assert "crashed: without a message; " in capsys.readouterr().out


def test_run_whose_store_takes_no_more_shows_what_it_found(tmp_path, monkeypatch, capsys):
    """The disk is full after two results; a double of the disk."""
    monkeypatch.chdir(tmp_path)
    stored: list[Result] = []
    record_all = StudyHandle.record_all

    def on_a_full_disk(handle, results):
        if len(stored) >= 2:
            raise StoreFull("storage studies/tuner.db: the disk is full (0.0 MB free); free some space and run again")
        stored.extend(results)
        return record_all(handle, results)

    monkeypatch.setattr(StudyHandle, "record_all", on_a_full_disk)
    command = ("run", "C=2,H=12,W=11,M=3,K=3", "--batch", "9", "--device", "cpu", "--template", "direct", "--jobs", "1")
    code, out, err = tune(capsys, *command, "--trials", "6")
    assert (code, err) == (
        1,
        "tune: storage studies/tuner.db: the disk is full (0.0 MB free); free some space and run again\n",
    )
    assert "fastest so far" in out
    assert "no verified winner yet" in out
    assert "the store could not be written" in out
    assert "tune show C2H12W11M3K3" in out
