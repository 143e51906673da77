"""A user's template runs in a process of its own: whatever it does there, ours is as it was, and gets plain data."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from own_template import own, written
from pocl_harness import CPU_LIMITS

from tuner.errors import Infeasible, UsageError
from tuner.kernels.arithmetic import smaller, up
from tuner.kernels.expressions import BATCH
from tuner.kernels.hosting import host, process
from tuner.kernels.hosting.plain import Malformed, Odd, Reader, packed, parsed
from tuner.kernels.loading import load_template
from tuner.kernels.space import enumerate_template
from tuner.kernels.template import KernelTemplate, Launch
from tuner.problems.conv.layers import find_layer

LAYER = find_layer("C=2,H=12,W=11,M=3,K=3", batch=9)
BODY = "    blocks = "
TOP = "TEMPLATE ="
MEDDLING = """
import atexit, json, numpy, os, pickle, sys, threading, time
import tuner.kernels.template, tuner.kernels.space, tuner.kernels.calling, tuner.kernels.hosting.plain
tuner.kernels.template.KernelTemplate.launch_of = lambda *_: 1 / 0
tuner.kernels.space.enumerate_template = tuner.kernels.calling.called = lambda *_: 1 / 0
tuner.kernels.hosting.plain.Reader.read = lambda *_: 1 / 0
os.replace = numpy.count_nonzero = json.loads = lambda *_: 1 / 0
os.environ["MEDDLED"] = "1"
os.chdir("/")
sys.modules["__main__"].MEDDLED = True
sys.setrecursionlimit(60000)
atexit.register(lambda: open({file!r}, "w").write("at exit"))
def print_on():
    while True:
        print("and on")
        time.sleep(0.001)
threading.Thread(target=print_on).start()
"""


@pytest.fixture
def short(monkeypatch):
    """Little time for a template, so that what hangs is seen soon; it need not answer quickly to be good."""
    monkeypatch.setattr(host, "CALL_SECONDS", 0.5)
    monkeypatch.setattr(host, "LATER_SECONDS", 0.2)
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.5)


def host_of(template: KernelTemplate) -> host.Host:
    assert isinstance(template.home, host.FarHome)
    assert template.home.host is not None
    return template.home.host


def launches(template: KernelTemplate) -> tuple[Launch, str]:
    """Return the launch for the first choices, and what is said for another configuration."""
    good = template.launch_of(template.configuration({}), LAYER)
    with pytest.raises(Infeasible) as caught:
        template.launch_of(template.configuration({"UNROLL": 5}), LAYER)
    assert "\n" not in str(caught.value)
    assert template.launch_of(template.configuration({}), LAYER.with_batch(8)).block == good.block
    return good, str(caught.value)


def one(folder: Path, body: str) -> KernelTemplate:
    """Return a template whose launch does ``body`` for one configuration of two."""
    return own(folder, (BODY, f"    if p.UNROLL == 5: {body}\n{BODY}"))


def test_meddling_at_import_changes_nothing_here(tmp_path, capsys):
    file, folder = tmp_path / "written", os.getcwd()
    before = os.replace, np.count_nonzero, json.loads, KernelTemplate.launch_of, Reader.read, sys.getrecursionlimit()
    template = own(tmp_path, (TOP, MEDDLING.format(file=str(file)) + TOP))
    assert template.launch_of(template.configuration({}), LAYER).block == (16, 1, 1)
    assert len(enumerate_template(template, LAYER, CPU_LIMITS)) == 6
    assert before == (
        os.replace, np.count_nonzero, json.loads, KernelTemplate.launch_of, Reader.read, sys.getrecursionlimit()
    )  # fmt: skip
    assert (os.getcwd(), os.environ.get("MEDDLED")) == (folder, None)
    assert not hasattr(sys.modules["__main__"], "MEDDLED")
    assert "template_mine" not in sys.modules
    assert not [thread for thread in threading.enumerate() if "print_on" in thread.name]
    host_of(template).close()
    assert not file.exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("type('Evil', (), {'__reduce__': lambda self: (open, (FILE, 'w'))})()", "launch gives <"),
        ("'x' * 10**7", "launch gives 'xxxxxxxx"),
        ("10 ** 6000", "launch gives "),
        ("b'bytes'", "launch gives b'bytes'"),
        ("[[[[[[[[[1]]]]]]]]]", "launch gives [[[["),
        ("float('nan')", "launch gives nan"),
        ("chr(0xd800)", "its answer is not plain data: half a letter"),
        ("(each for each in ())", "launch gives <generator"),
        ("{1: 2}", "launch gives {1: 2}"),
        ("type('Own', (Exception,), {'__repr__': lambda self: 1 / 0})()", "launch gives Own"),
        ("type('Own', (tuple,), {'__iter__': lambda self: 1 / 0})((1,))", "mine.py"),
        ("chr(27) + '[2J'", "launch gives '\\x1b[2J'"),
    ],
)
def test_what_is_no_plain_data_is_told_of_and_not_made_here(tmp_path, value, says):
    file = tmp_path / "made"
    _, said = launches(one(tmp_path, f"return {value.replace('FILE', repr(str(file)))}"))
    assert says in said
    assert len(said) < 500
    assert not file.exists()


def test_numbers_of_a_class_of_its_own_come_as_plain_ones(tmp_path):
    own_class = "class Own(int):\n    def __mul__(self, other): open('/', 'w')\n"
    template = own(
        tmp_path,
        (TOP, own_class + TOP),
        ("choices=(1, 5)", "choices=(Own(1), Own(5))"),
        ("grid=(blocks, 1, 1)", "grid=(Own(blocks), Own(1), 1)"),
    )
    launch = template.launch_of(template.configuration({}), LAYER)
    assert {type(each) for each in (*launch.grid, *template.parameters[1].choices)} == {int}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "import os; os._exit(3)",
            "mine.py:4: launch fails: it ends its process (exit code 3); a template only declares",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "its process is killed by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process is killed by SIGKILL"),
        ("import os; os.closerange(3, 99)", "its process "),
        ("import os; [os.write(n, b'x' * 64) for n in range(3, 99) if is_socket(n)]", "its answer is not plain data"),
        ("import sys; sys.exit(7)", "mine.py:5: launch fails: it calls sys.exit(7)"),
        ("raise KeyboardInterrupt", "mine.py"),
    ],
)
def test_process_that_ends_costs_one_configuration(tmp_path, short, body, says):
    sockets = "import os, stat\ndef is_socket(n):\n    try: return stat.S_ISSOCK(os.fstat(n).st_mode)\n"
    sockets += "    except OSError: return False\n"
    template = own(tmp_path, ("def launch", sockets + "def launch"), (BODY, f"    if p.UNROLL == 5: {body}\n{BODY}"))
    good, said = launches(template)
    assert good.block == (16, 1, 1)
    assert says.replace("mine.py:4", "mine.py:8").replace("mine.py:5", "mine.py:9") in said


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("\n        while True: pass", "mine.py:6: launch fails: it takes longer than 0.5 s"),
        (
            "\n        import signal; signal.setitimer(signal.ITIMER_REAL, 0)\n        while True: pass",
            "mine.py:4: launch fails: it takes longer than 0.5 s",
        ),
        ("import time; time.sleep(1000)", "mine.py:5: launch fails: it takes longer than 0.5 s"),
    ],
)
def test_launch_without_end_is_infeasible_and_names_its_line(tmp_path, short, body, says):
    assert says in launches(one(tmp_path, body))[1]


def test_launch_that_never_answers_is_soon_asked_no_more(tmp_path, short):
    template = own(tmp_path, (BODY, f"    while True: pass\n{BODY}"))
    said = []
    for batch in range(1, 20):
        with pytest.raises(Infeasible) as caught:
            template.launch_of(template.configuration({}), LAYER.with_batch(batch))
        said.append(str(caught.value))
    assert said[-1] == "mine.py:4: launch fails: it took too long each of the 3 times that it was called"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("while True: pass", "mine.py:9: it takes longer than 0.5 s"),
        ("import os; os._exit(3)", "it ends its process (exit code 3)"),
        ("import os; os.closerange(3, 99)", "its process "),
    ],
)
def test_file_that_does_not_load_is_one_line(tmp_path, short, monkeypatch, code, says):
    monkeypatch.setattr(host, "LOAD_SECONDS", 0.5)
    path = written(tmp_path, (TOP, f"{code}\n{TOP}"))
    before = active_children()
    with pytest.raises(UsageError) as caught:
        load_template(path)
    assert str(caught.value).startswith(f"template {path}: ")
    assert says in str(caught.value) or "it takes longer" in str(caught.value)  # on a machine that is busy
    assert not [each for each in active_children() if each.name.startswith("template") and each not in before]


def test_no_descriptor_of_ours_is_in_its_reach(tmp_path, capfd):
    """Whatever it writes to, closes or reads, nothing is said by anything but the tuner."""
    noise = "import os\nfor n in range(3, 99):\n    try: os.write(n, b'x' * 64 + b'\\n')\n    except OSError: pass\n"
    with pytest.raises(UsageError):
        load_template(written(tmp_path, (TOP, noise + TOP)))
    assert own(tmp_path).name == "mine"
    assert "Traceback" not in capfd.readouterr().err


def test_configuration_is_asked_of_once(tmp_path):
    count = tmp_path / "count"
    template = own(tmp_path, (BODY, f"    open({str(count)!r}, 'a').write('x')\n{BODY}"))
    for _ in range(5):
        template.launch_of(template.configuration({}), LAYER)
    assert count.read_text() == "x"


def test_its_process_and_what_it_started_end_with_the_template(tmp_path):
    start = "import subprocess\nCHILD = subprocess.Popen(['sleep', '600'])\n"
    template = own(
        tmp_path, (TOP, start + TOP), (BODY, f"    return Launch(grid=(CHILD.pid, 1, 1), block=(1, 1, 1))\n{BODY}")
    )
    child = template.launch_of(template.configuration({}), LAYER).grid[0]
    running = next(each for each in active_children() if each.name == "template mine")
    assert psutil.pid_exists(child)
    del template
    gc.collect()
    assert not running.is_alive()
    ended(child)


def ended(number: int) -> None:
    """Wait until a process is gone, or only its entry is left for whoever adopted it."""
    deadline = time.monotonic() + 60
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "it outlived its template"
            time.sleep(0.01)


def test_process_that_is_killed_from_outside_is_asked_again(tmp_path):
    template = own(tmp_path)
    template.launch_of(template.configuration({}), LAYER)
    running = next(each for each in active_children() if each.name == "template mine")
    running.kill()
    running.join()
    assert template.launch_of(template.configuration({"UNROLL": 5}), LAYER).block == (16, 1, 1)


def test_edited_file_is_not_taken_for_the_one_in_use(tmp_path):
    template = own(tmp_path)
    host_of(template).close()
    written(tmp_path, ("p.THREADS}", "p.THREADS + 1}"))
    with pytest.raises(UsageError, match="it was changed while it was in use; start again"):
        template.launch_of(template.configuration({}), LAYER)


SCRIPT = """
import os, signal, sys, threading
from multiprocessing import active_children
from pathlib import Path
from tuner import load_template
from tuner.problems.conv.layers import find_layer
template = load_template(Path(sys.argv[1]))
layer = find_layer("C=2,H=12,W=11,M=3,K=3", batch=9)
def interrupt():
    print(active_children()[0].pid, flush=True)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
threading.Timer(0.2, interrupt).start()
try:
    template.launch_of(template.configuration({"UNROLL": 5}), layer)
except KeyboardInterrupt:
    print(template.launch_of(template.configuration({}), layer).block)
"""


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_interrupt_while_a_template_hangs_ends_it(tmp_path, how):
    one(tmp_path, "\n        while True: pass")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "mine.py"), how],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    number, *rest = done.stdout.splitlines()
    assert done.stderr == ""
    assert rest == (["(16, 1, 1)"] if how == "SIGINT" else [])
    assert done.returncode == (0 if how == "SIGINT" else -signal.SIGKILL)
    ended(int(number))


def test_output_without_end_is_cut(tmp_path, capsys):
    template = own(tmp_path, (BODY, f"    print(chr(27) + 'a' * 10**6)\n{BODY}"))
    template.launch_of(template.configuration({}), LAYER)
    out, err = capsys.readouterr()
    assert out == ""
    assert "mine.py prints more than 100,000 letters; the rest is not shown" in err
    assert len(err) < 250_000
    assert "\x1b" not in err


@pytest.mark.parametrize(
    "text",
    [
        b'{"object": 1}',
        b'{"Launch": [["grid", {"tuple": [1, 1]}], ["block", {"tuple": [1, 1, 1]}]]}',
        b'{"Launch": [["grid", {"tuple": [1, 1, 1.5]}], ["block", {"tuple": [1, 1, 1]}]]}',
        b'{"Launch": [["grid", {"tuple": [1, 1, true]}], ["block", {"tuple": [1, 1, 1]}]]}',
        b'{"Launch": [["grid", {"tuple": [1, 1, 1]}], ["clock", 5]]}',
        b'{"column": ["|O8", 1]}',
        b'{"column": ["<f8", 1]}',
        b'{"column": ["<f8", 2]}',
        b'{"map": [[1, 2]]}',
        b'{"odd": 1}',
        b'{"expression": [[[[], 1.5]], 0]}',
        b'{"expression": [[[[[[], 0], 0, true], 1]], 0]}',
        b'{"expression": 5}',
        b'{"tuple": [' * 5000 + b"1" + b"]}" * 5000,
        b"[1]",
        b"1" * 5000,
        b"9223372036854775809",
        b'"\\ud800"',
        b"\xff",
        b"{",
        b"[" * 100_000,
    ],
)
def test_forged_answer_is_refused(text):
    with pytest.raises(Malformed):
        Reader(4, b"12345678").read(parsed(text))


@pytest.mark.parametrize(
    "value",
    [
        True,
        3,
        2.5,
        "word",
        None,
        (1, (2.0, "a")),
        [1],
        {"a": 1},
        Launch(grid=(1, 2, 3), block=(4, 5, 6), shared_bytes=7),
    ],
)
def test_plain_values_cross_as_they_are(value):
    assert Reader(0, b"").read(json.loads(json.dumps(packed(value, 0, [])))) == value


def test_expressions_of_the_batch_cross_as_they_are(tmp_path):
    of_any: Any = BATCH  # which counts as a number
    launch = own(tmp_path).launch_of(own(tmp_path).configuration({}), LAYER.with_batch(of_any))
    blocks: Any = launch.grid[0]
    assert blocks.words() == "ceil(270 * B / 16)"
    least = smaller(up(3 * BATCH, 7), 100) * 2 - 1
    assert Reader(0, b"").read(json.loads(json.dumps(packed(least, 0, [])))) == least


def test_sizes_are_told_with_their_comments(tmp_path):
    sizes = "from tuner.kernels.sizes import ConvSizes, size\nclass Tile(ConvSizes):\n    @size\n    def waves(self):\n"
    sizes += '        """waves of it"""\n        return 6 // (self.p.UNROLL - 1)\n'
    template = own(tmp_path, (TOP, sizes + TOP), ("launch=launch", "launch=launch, sizes=Tile"))
    assert template.sizes_of(template.configuration({"UNROLL": 5}), LAYER)["WAVES"] == (1, "waves of it")
    with pytest.raises(Infeasible, match=r"mine\.py:14: sizes fails: ZeroDivisionError"):
        template.sizes_of(template.configuration({}), LAYER)


@pytest.mark.parametrize(
    ("magnitudes", "says"),
    [
        ("(1, 2, 3)", "gives (1, 2, 3)"),
        ("(-1.0, 2.0)", "gives (-1.0, 2.0)"),
        ("(1.0, float('inf'))", "gives (1.0, inf)"),
        ("p.NONE", "magnitudes fails: p.NONE: no such parameter"),
    ],
)
def test_magnitudes_that_are_none_are_one_line(tmp_path, magnitudes, says):
    template = own(tmp_path, ("launch=launch", f"launch=launch, magnitudes=lambda p: {magnitudes}"))
    with pytest.raises(Infeasible, match=r"mine\.py:20: ") as caught:
        template.magnitudes_of(template.configuration({}))
    assert says in str(caught.value)


@pytest.mark.parametrize("column", [np.array([True, False]), np.array([1.5, np.nan]), np.array([1, 2], dtype=np.uint8)])
def test_columns_cross_as_they_are(column):
    blobs: list[bytes] = []
    sent = packed({"a": column, "b": column[0]}, 2, blobs)
    read = Reader(2, b"".join(blobs)).read(sent)
    np.testing.assert_array_equal(read["a"], column)
    assert read["a"].dtype == column.dtype
    np.testing.assert_array_equal(read["b"], column[0])
    assert isinstance(Reader(3, b"").read(packed(column, 3, [])), Odd)
