"""A user's own Python is called with care: what it does wrong is one line, or one configuration's outcome."""

from __future__ import annotations

import subprocess
import sys

import pytest
from own_template import LAYER, RULE, own, run, written
from pocl_harness import CPU_LIMITS

from tuner.errors import Infeasible, UsageError
from tuner.kernels.loading import builtin_templates, load_template
from tuner.kernels.space import enumerate_template
from tuner.moved import MOVED
from tuner.storage import Store

BODY = "    blocks = "
FIGURES = '{"threads": p.THREADS}'


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("p.THREADS <= limits.max_thread", "limits.max_thread: there is no such value; did you mean 'max_threads'?"),
        ("p.THREDS <= limits.max_threads", "p.THREDS: no such parameter is declared; did you mean 'THREADS'?"),
        ("layer.h_out > 0", "layer.h_out: there is no such value; did you mean 'H_out'?"),
        ("p.THREADS <= 32 and p.UNROLL == 1", "write (a) & (b)"),
        ("1 < p.THREADS < 32", "(a <= b) & (b < c)"),
        ("min(p.THREADS, p.UNROLL) > 0", "np.minimum"),
        ("1024 // (p.UNROLL - 1) > 0", "divide by zero"),
        ("1024 // (layer.K - 3) > 0", "ZeroDivisionError"),
        ("None", "gives None; return whether it holds"),
        ("[True, False]", "gives [True, False]"),
        ("exit(7)", "it calls sys.exit(7)"),
    ],
)
def test_failing_constraint_is_one_line_that_names_rule_word_and_line(tmp_path, rule, says):
    with pytest.raises(UsageError) as caught:
        enumerate_template(own(tmp_path, (RULE, rule)), LAYER, CPU_LIMITS)
    assert str(caught.value).startswith("template mine: mine.py:18: constraint 'threads' ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rule_may_divide_by_what_a_later_rule_excludes(tmp_path):
    rule = (RULE, "1024 // (p.THREADS - 16) > 0")
    end = "    ),\n    launch="
    last = (end, f'        Constraint("some", lambda p, layer, limits: p.THREADS > 16 * p.UNROLL ** 0, "few"),\n{end}')
    assert len(enumerate_template(own(tmp_path, rule, last), LAYER, CPU_LIMITS)) == 4


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if p.UNROLL == 5: 1 / 0", "mine.py:5: launch fails: ZeroDivisionError: division by zero"),
        ("if p.UNROLL == 5: return None", "mine.py:4: launch gives None"),
        ("if p.UNROLL == 5: return (1, 2, 3)", "mine.py:4: launch gives (1, 2, 3)"),
        ("if p.UNROLL == 5: return Launch(grid=(8.0, 1, 1), block=(1, 1, 1))", "mine.py:5: launch fails: grid=(8.0"),
        ("if p.UNROLL == 5: return Launch(grid=(8, 1), block=(1, 1, 1))", "grid=(8, 1) is not three whole numbers"),
        ("if p.UNROLL == 5: return Launch(grid=(2**40, 1, 1), block=(1, 1, 1))", "below 2^31"),
        ("if p.UNROLL == 5: p.THREAD", "p.THREAD: no such parameter is declared; did you mean 'THREADS'?"),
        ("if p.UNROLL == 5: exit(7)", "it calls sys.exit(7)"),
    ],
)
def test_failing_launch_is_infeasible_for_its_configurations_alone(tmp_path, body, says):
    template = own(tmp_path, (BODY, f"    {body}\n{BODY}"))
    assert template.launch_of(template.configuration({}), LAYER).block == (16, 1, 1)
    with pytest.raises(Infeasible) as caught:
        template.launch_of(template.configuration({"UNROLL": 5}), LAYER)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_run_goes_on_when_launch_and_figures_fail_for_one_choice_of_two(tmp_path):
    broken = (BODY, f"    if p.UNROLL == 5: 1 / 0\n{BODY}")
    template = own(tmp_path, broken, (FIGURES, '{"waste": 1 / (p.UNROLL - 1)}'))
    report, lines = run(tmp_path, template)
    assert report.winner is not None
    assert report.progress.done == 6
    assert [each.outcome for each in report.failed] == ["infeasible"] * 3
    assert {each.text for each in report.failed} == {"mine.py:5: launch fails: ZeroDivisionError: division by zero"}
    assert any("figure 'waste' is not a positive number for 3 of 6 configurations" in line for line in lines)
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as store:
        study = store.find_study(report.progress.study)
        assert study.claims() == []
        assert study.counts() == {"ok": 3, "infeasible": 3}
    mended, _ = run(tmp_path, own(tmp_path))
    assert (mended.progress.known, mended.progress.done) == (3, 3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((BODY, f"    p.THREAD\n{BODY}"), "mine.py:5: launch fails: p.THREAD: no such parameter"),
        ((FIGURES, "None"), "mine.py:21: its figures are None"),
        ((FIGURES, '{"waste": p.UNROL}'), "mine.py:21: p.UNROL: no such parameter"),
    ],
)
def test_what_fails_for_all_is_one_line_and_leaves_no_study(tmp_path, change, says):
    with pytest.raises(UsageError) as caught:
        run(tmp_path, own(tmp_path, change))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "tuner.db").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("TEMPLATE =", "import sys\nsys.exit(7)\nTEMPLATE ="), "mine.py:10: it calls sys.exit(7)"),
        (("TEMPLATE =", "x = (\nTEMPLATE ="), "mine.py:9: SyntaxError"),
        (("TEMPLATE =", "TEMPLAT ="), "no TEMPLATE of type KernelTemplate"),
        (("TEMPLATE =", "TEMPLATE = 5\nMINE ="), "KernelTemplate (it is 5)"),
        (('name="mine"', 'name="my kernel"'), "mine.py:9: template name 'my kernel'"),
        (('"too many threads"),\n', '"too many threads")\n'), "give a tuple: (Constraint(...),)"),
        (("launch=launch", "launch=5"), "launch is not a function"),
        (("launch=launch", "lunch=launch"), "mine.py:9: TypeError"),
        (("launch=launch", 'launch=launch, dialects="cuda"'), "dialects='cuda'; write (CUDA,)"),
        (("import Constraint", "import Constrain"), "mine.py:1: ImportError"),
        (
            ("TEMPLATE =", "class Own(Exception):\n    def __str__(self): 1 / 0\nraise Own\nTEMPLATE ="),
            "mine.py:11: Own",
        ),
    ],
)
def test_broken_template_file_names_its_line(tmp_path, change, says):
    path = written(tmp_path, change)
    with pytest.raises(UsageError) as caught:
        load_template(path)
    assert str(caught.value).startswith(f"template {path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_file_beside_a_template_is_imported_also_within_a_function(tmp_path):
    templates = []
    for threads in (8, 4):
        folder = tmp_path / str(threads)
        folder.mkdir()
        (folder / "beside.py").write_text(f"THREADS = ({threads},)\n")
        (folder / "later.py").write_text("import beside\nTHREADS = 10 * beside.THREADS[0]\n")
        templates.append(
            own(
                folder,
                ("TEMPLATE =", "import beside\nTEMPLATE ="),
                ("choices=(16, 32, 64)", "choices=beside.THREADS"),
                (BODY, f"    import later\n    return Launch(grid=(1, 1, 1), block=(later.THREADS, 1, 1))\n{BODY}"),
            )
        )
    for threads, template in zip((8, 4), templates, strict=True):
        assert template.parameters[0].choices == (threads,)
        assert template.launch_of(template.configuration({}), LAYER).block == (10 * threads, 1, 1)
        assert template.home is not None
        assert "THREADS = (" in template.home.text
    assert not {"beside", "later", "template_mine"} & set(sys.modules)
    assert str(tmp_path / "8") not in sys.path
    assert not list(tmp_path.rglob("__pycache__"))


def test_edited_file_beside_a_template_is_read_anew(tmp_path):
    (tmp_path / "beside.py").write_text("THREADS = (8,)\n")
    change = (("TEMPLATE =", "import beside\nTEMPLATE ="), ("choices=(16, 32, 64)", "choices=beside.THREADS"))
    assert own(tmp_path, *change).parameters[0].choices == (8,)
    (tmp_path / "beside.py").write_text("THREADS = (4,)\n")
    assert own(tmp_path, *change).parameters[0].choices == (4,)


def test_what_a_template_prints_is_no_output_of_the_command(tmp_path, capsys):
    template = own(tmp_path, ("TEMPLATE =", "print('hello')\nTEMPLATE ="), (BODY, f"    print('there')\n{BODY}"))
    template.launch_of(template.configuration({}), LAYER)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "hello\nthere\n")


def test_built_in_templates_have_no_home_of_their_own():
    assert all(template.home is None for template in builtin_templates().values())


@pytest.mark.parametrize(("former", "now"), MOVED.items())
def test_template_may_import_a_module_by_its_former_name(former, now):
    code = f"import {former}, {now} as now, sys; assert sys.modules['{former}'] is now; print(now.__spec__.name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{now}\n", "")
