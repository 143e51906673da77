"""The seam's proof: another problem than a convolution is enumerated, checked, timed, stored, shown and exported."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command import tune

from tuner.errors import UsageError
from tuner.problems.conv.layers import ConvLayer
from tuner.problems.gemm import Gemm
from tuner.problems.lookup import find_problem, says_rows
from tuner.problems.problem import is_naive
from tuner.problems.registry import KINDS, kind_of, problem_of

TEXT = "gemm:M=24,N=20,K=12"
ARGUMENTS = ["--problem", "gemm", "--sizes", "M=24,N=20,K=12"]


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_every_kind_fit_its_sizes(kind):
    problem = {"conv": find_problem("C=2,H=12,W=11,M=3,K=3,B=7"), "gemm": find_problem(TEXT)}[kind]
    assert problem_of(kind, problem.name, problem.sizes) == problem
    assert [tensor.output for tensor in problem.tensors].count(True) == 1
    assert [tensor.scaled for tensor in problem.inputs].count(True) == 1
    assert problem.SIZES[0] == problem.ROWS
    for tensor in problem.tensors:
        assert tensor.shape == tuple(getattr(problem, dim) for dim in tensor.dims)
        assert len(tensor.axes) == len(tensor.shape)
        assert tensor.rows == (tensor.dims[0] == problem.ROWS)
        assert problem.with_rows(3).tensor(tensor.name).shape[0] == (3 if tensor.rows else tensor.shape[0])
    arrays = {tensor.name: np.ones(tensor.shape, np.float32) for tensor in problem.inputs}
    assert np.array_equal(problem.expected(arrays), np.full(problem.output.shape, float(problem.terms)))
    names = [declared.split()[-1].lstrip("*") for declared in kind_of(kind).ARGUMENTS.split(", ")]
    assert names == [*(tensor.name for tensor in problem.tensors), *problem.SIZES]


def test_sizes_are_read_and_the_rows_may_be_left_out():
    assert find_problem(TEXT) == Gemm(name="gemm/N20K12", M=24, N=20, K=12)
    assert find_problem("gemm:n=20,k=12", 5).rows == 5
    assert (says_rows(TEXT), says_rows("gemm:N=1,K=2")) == (True, False)
    assert isinstance(find_problem("conv2"), ConvLayer)
    assert is_naive("naive 32x32 (B,M,1)")
    assert not is_naive("naively")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gemn:M=1,N=1,K=1", "problem 'gemn' is unknown; did you mean 'gemm'?"),
        ("gemm:M=1,N=1", "K missing; write --sizes M=512,N=512,K=512"),
        ("gemm:M=1,N=1,K=1,B=2", "'B' is not a size; give M, N, K"),
        ("gemm:N=1,N=1,K=1", "N is given twice"),
        ("gemm:N=x,K=1", "N='x' is not a whole number; write N=512"),
        ("gemm:M=0,N=1,K=1", "M=0 is below 1"),
    ],
)
def test_wrong_sizes_are_one_line(text, says):
    with pytest.raises(UsageError) as error:
        find_problem(text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("gemm")


def test_gemm_is_tuned_stored_shown_and_exported(capsys, folder: Path, monkeypatch):
    monkeypatch.chdir(folder)
    code, out, err = tune(capsys, "run", *ARGUMENTS, "--device", "cpu", "--trials", "12", "--seed", "1", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert set(report["outcomes"]) == {"ok"}
    assert report["naive_ms"]
    assert report["study"].startswith("gemm/N20K12 cpu M24 fp32 ")
    code, out, err = tune(capsys, "run", *ARGUMENTS, "--device", "cpu", "--trials", "2", "--json")
    assert (code, json.loads(out)["known_before"]) == (0, 12), err
    code, out, err = tune(capsys, "show", "gemm")
    assert code == 0, err
    assert "M=24 N=20 K=12" in out
    code, out, err = tune(capsys, "best", "gemm", "--json")
    assert (code, json.loads(out)["template"]) == (0, "tiled"), err
    code, out, err = tune(capsys, "export", "gemm", "-o", "best.h")
    assert code == 0, err
    text = Path("best.h").read_text()
    assert "a is (M, K), b is (K, N), c is (M, N)" in text
    assert "_A_SIZE(M) ((size_t)(M) * GEMM_N20K12_FP32_M24_CPU_K)" in text
    assert "--problem gemm --sizes M=24,N=20,K=12" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sizes", "M=1"], "--sizes M=1 of what? Give --problem too"),
        ([*ARGUMENTS, "--template", "direct"], "'direct' is unknown"),
        ([*ARGUMENTS, "--layer", "conv2"], "name"),
    ],
)
def test_wrong_words_are_usage_errors(capsys, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    code, _, err = tune(capsys, "run", *arguments, "--device", "cpu")
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1
