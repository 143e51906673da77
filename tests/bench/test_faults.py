"""Nothing a configuration does costs a result, and nothing wrong wins: every fault ends as its outcome."""

from __future__ import annotations

from dataclasses import replace

import psutil
import pytest
from faulty import OUTCOMES, faulty
from small_run import LAYER, SIZES, run

from tuner.errors import UsageError
from tuner.problems.conv.layers import find_layer
from tuner.storage import Store
from tuner.tuning import RunOptions


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def study(request, tmp_path_factory):
    """One study over every fault, with sound configurations before, between and after."""
    folder = tmp_path_factory.mktemp("faults")
    report = run(folder, faulty(threads=SIZES), device=request.param)
    with Store.open(f"sqlite:///{folder}/tuner.db") as store:
        results = store.find_study(report.progress.study).results()
        running = store.stale_claims()
    return (
        report,
        {(r.configuration.as_dict()["FAULT"], r.configuration.as_dict()["THREADS"]): r for r in results},
        running,
    )


@pytest.mark.parametrize("fault", OUTCOMES)
def test_outcome_is_the_right_one_for_each_fault(study, fault):
    _, results, _ = study
    assert results[fault, 64].outcome == OUTCOMES[fault], results[fault, 64].text


def test_study_survives_every_fault_and_says_the_space_is_exhausted(study):
    report, results, running = study
    assert report.reason == "exhausted"
    assert len(results) == len(OUTCOMES) + len(SIZES) - 1
    assert running == []


def test_winner_is_the_sound_configuration(study):
    report, _, _ = study
    assert report.winner is not None
    assert report.winner.configuration.as_dict()["FAULT"] == "none"
    assert report.winner.confirmed


def test_failure_text_names_the_first_wrong_element(study):
    _, results, _ = study
    n = LAYER.y_size // 3
    b, rest = divmod(n, LAYER.M * LAYER.H_out * LAYER.W_out)
    m, rest = divmod(rest, LAYER.H_out * LAYER.W_out)
    h, w = divmod(rest, LAYER.W_out)
    assert f"(b, m, h, w) = ({b}, {m}, {h}, {w})" in results["off_by_one", 64].text
    assert "this configuration cannot be compiled" in results["hash_error", 64].text.splitlines()[0]
    assert "never written" in results["half_written", 64].text
    assert "before y" in results["before_y", 64].text
    assert "after y" in results["after_y", 64].text
    assert results["other_name", 64].text.startswith("there is no kernel 'conv_forward'")


def test_values_of_sound_trials_are_finite_and_unharmed_after_faults(study):
    _, results, _ = study
    for threads in SIZES:
        assert 0 < results["none", threads].seconds < 100


def test_no_compiler_process_is_left_after_a_compile_timed_out(study):
    children = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    assert [child for child in children if "spawn_main" in child] == []


def test_study_without_a_sound_configuration_has_no_winner(tmp_path):
    report = run(tmp_path, faulty("off_by_one", "returns_at_once"))
    assert report.reason == "exhausted"
    assert report.winner is None
    assert {result.outcome for result in report.failed} == {"wrong_result"}


def test_space_of_six_points_is_exhausted_before_twenty_trials(tmp_path):
    template = faulty("none", threads=(8, 16, 32, 64, 128, 256))
    report = run(tmp_path, template, trials=20)
    assert (report.reason, report.progress.done) == ("exhausted", 6)
    again = run(tmp_path, template, trials=20)
    assert (again.reason, again.progress.done, again.progress.known) == ("exhausted", 0, 6)


def test_results_carry_over_when_choices_are_added_and_reordered(tmp_path):
    run(tmp_path, faulty("none", threads=(8, 16, 32)))
    report = run(tmp_path, faulty("none", threads=(64, 32, 16, 8)))
    assert (report.progress.known, report.progress.reused, report.progress.done) == (3, 3, 1)


def test_results_carry_over_into_the_older_study_when_choices_are_put_back(tmp_path):
    older, newer = faulty("none", threads=(64, 16, 32)), faulty("none", threads=(32, 16, 64, 8))
    run(tmp_path, older, trials=1)
    run(tmp_path, newer)
    report = run(tmp_path, older)
    assert (report.progress.known, report.progress.reused, report.progress.done) == (3, 2, 0)


def test_launch_faster_than_the_clock_has_a_positive_finite_time(tmp_path):
    report = run(tmp_path, faulty("none"), problem=find_layer("C=1,H=1,M=1,K=1", batch=1))
    assert report.winner is not None
    assert 0 < report.winner.seconds < 10


def test_launch_may_take_as_long_as_the_trial():
    asked = RunOptions(problem=LAYER, device="cpu", templates=(), storage="", sampler="grid")
    assert asked.spec.protocol.launch_floor == 2.0
    assert replace(asked, trial_timeout=15.0).spec.protocol.launch_floor == 15.0


def test_layer_larger_than_the_memory_is_refused_before_anything_is_allocated(tmp_path):
    with pytest.raises(UsageError, match=r"take .* GB, the device has"):
        run(tmp_path, faulty("none"), problem=find_layer("C=100000,H=5,M=20000,K=5", batch=1))


def test_layer_that_cannot_be_indexed_is_refused(tmp_path):
    with pytest.raises(UsageError, match="an int counts to 2,147,483,647"):
        run(tmp_path, faulty("none"), problem=find_layer("C=1,H=4096,M=512,K=1", batch=10_000))
