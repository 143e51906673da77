"""``tune compare``: every contender is checked and timed in turn, its failure a line; PyTorch is a stand-in here."""

from __future__ import annotations

import importlib
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_store import ENVIRONMENT, TEMPLATES, changed, final, toy_configuration, toy_key

from tuner.cli import _run
from tuner.compare import CompareOptions, compare, rounds
from tuner.compare.contenders import best_found
from tuner.compare.rounds import Contender, ratio, run_rounds
from tuner.compare.rows import CHANNELS_LAST, Row, Variant, variants
from tuner.compare.torch_side import EXPECTED, MIN_FLUSH, TorchSpec, _Bench, enter_variant, open_torch
from tuner.errors import NoWinner, TunerError
from tuner.problems.conv.layers import ConvLayer
from tuner.problems.conv.reference import float32_conv
from tuner.problems.gemm import Gemm
from tuner.problems.problem import LibraryCall, Problem
from tuner.report.charts import Bar, bar_figure, bar_lines
from tuner.report.pictures import write_picture
from tuner.storage import Store

FAKE = Path(__file__).parents[1] / "support" / "fake_torch"
SIZES = ("--layer", "C=2,H=12,W=11,M=3,K=3", "--batch", "9", "--device", "cpu")


def call_of(problem: type[Problem]) -> LibraryCall:
    assert problem.LIBRARY is not None
    return problem.LIBRARY


CONV, GEMM = call_of(ConvLayer), call_of(Gemm)
FP16_LAST = Variant(library="cuDNN", precision="fp16", layout=CHANNELS_LAST)


@pytest.fixture
def torch(monkeypatch):
    """The stand-in, as ``torch`` in this process and in those it starts."""
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.delitem(__import__("sys").modules, "torch", raising=False)
    module = importlib.import_module("torch")
    assert module.__version__ == "9.9+fake"
    yield module
    __import__("sys").modules.pop("torch", None)


@pytest.fixture
def spec(tmp_path):
    """x, w and the expected y of a small layer, written as the other side writes them."""
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(shape, dtype=np.float32) for shape in ((5, 1, 8, 7), (3, 1, 3, 3)))
    for name, array in (("x.npy", x), ("w.npy", w), (EXPECTED, float32_conv(x, w))):
        np.save(tmp_path / name, array)
    return TorchSpec(
        device="cuda:0", folder=str(tmp_path), flush_bytes=1 << 20, call=CONV, inputs=("x", "w"), model="Test Card"
    )


# --- PyTorch's side, with the stand-in ---------------------------------------------------------------------------


def test_cudnn_is_compared_in_four_precisions_and_two_formats():
    names = [each.name for each in variants(CONV, "cuda", compiled=False)]
    assert len(names) == len(set(names)) == 8
    assert names[0] == "cuDNN FP32 NCHW"
    assert [each.name for each in variants(CONV, "cpu", compiled=False)] == [
        "PyTorch FP32 NCHW",
        "PyTorch FP32 channels-last",
    ]
    assert [each.compiled for each in variants(CONV, "cuda", compiled=True)].count(True) == 4


@pytest.mark.parametrize("variant", variants(CONV, "cuda", compiled=True), ids=lambda each: each.name)
def test_variant_has_its_format_precision_and_tf32_switch(torch, spec, variant):
    bench = _Bench(spec)
    assert torch.backends.cudnn.benchmark
    torch.LOG.clear()
    torch.backends.cudnn.allow_tf32 = variant.precision != "tf32"
    error = bench.largest_error(variant)
    kinds = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
    layout = "channels_last" if variant.layout == CHANNELS_LAST else "contiguous"
    wanted = f"conv2d {kinds[variant.precision]} {layout} {layout} tf32={variant.precision == 'tf32'} on cuda:0"
    convolutions = [line for line in torch.LOG if line.startswith("conv2d")]
    assert set(convolutions) == {wanted}
    assert ("compile conv2d_" + variant.precision + " max-autotune-no-cudagraphs" in torch.LOG) == variant.compiled
    assert (error == 0) == (variant.precision in ("fp32", "tf32"))
    assert error < {"fp16": 0.02, "bf16": 0.1}.get(variant.precision, 1e-9)


def test_product_of_matrices_is_compared_with_cublas(torch, tmp_path):
    a, b = np.eye(3, 4, dtype=np.float32), np.arange(8, dtype=np.float32).reshape(4, 2)
    for name, array in (("a.npy", a), ("b.npy", b), (EXPECTED, a @ b)):
        np.save(tmp_path / name, array)
    spec = TorchSpec(
        device="cuda:0", folder=str(tmp_path), flush_bytes=1 << 20, call=GEMM, inputs=("a", "b"), model="Test Card"
    )
    single, rounded, *_ = variants(GEMM, "cuda", compiled=False)
    assert [single.name, rounded.name] == ["cuBLAS FP32 row-major", "cuBLAS TF32 row-major"]
    assert [enter_variant(spec, single), enter_variant(spec, rounded)] == [0.0, 0.0]
    assert {line for line in torch.LOG if line.startswith("matmul")} == {
        "matmul tf32=False on cuda:0",
        "matmul tf32=True on cuda:0",
    }


def test_sample_flushes_then_times_one_convolution_between_events(torch, spec):
    bench = _Bench(spec)
    bench.call(FP16_LAST)
    torch.LOG.clear()
    torch.backends.cudnn.allow_tf32 = True
    assert bench.sample(FP16_LAST) == pytest.approx(2.5e-3)
    convolution = "conv2d float16 channels_last channels_last tf32=False on cuda:0"
    wanted = [f"flush {MIN_FLUSH}", "record", convolution, "record", "synchronize"]
    assert wanted == torch.LOG


def test_sample_on_a_cpu_is_wall_time_after_the_flush(torch, spec):
    bench = _Bench(replace(spec, device="cpu", flush_bytes=4096, model=""))
    variant = variants(CONV, "cpu", compiled=False)[0]
    assert 0 < bench.sample(variant) < 5
    assert torch.LOG[-2] == "flush 4096"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no_cuda", "PyTorch 9.9+fake has no CUDA here"),
        ("refuses_fp16", "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"),
        ("writes_nan", "elements that are NaN"),
    ],
)
def test_failure_of_pytorch_is_one_line(torch, spec, monkeypatch, fault, message):
    monkeypatch.setenv("FAKE_TORCH", fault)
    monkeypatch.setattr("tuner.compare.torch_side._bench", None)
    with pytest.raises(TunerError) as caught:
        enter_variant(spec, FP16_LAST)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_card_than_ours_is_refused(torch, spec, monkeypatch):
    monkeypatch.setattr("tuner.compare.torch_side._bench", None)
    other = replace(spec, flush_bytes=4, model="Other Card")
    with pytest.raises(TunerError, match=r"is Test Card, ours Other Card; set CUDA_DEVICE_ORDER"):
        open_torch(other)


# --- rounds, rows and charts -------------------------------------------------------------------------------------


def test_rounds_take_each_contender_once_and_rotate_who_begins():
    order: list[str] = []

    def sampler(name, limit=99):
        def sample():
            order.append(name)
            if order.count(name) > limit:
                raise TunerError(f"{name} is lost\nmore")
            return {"a": 1.0, "b": 2.0, "c": 4.0}[name]

        return sample

    a, b, c = (
        Contender(name="a", sample=sampler("a")),
        Contender(name="b", sample=sampler("b", 2)),
        Contender(name="c", sample=sampler("c")),
    )
    run_rounds([a, b, c], rounds=range(4, 6), seconds=60.0)
    assert "".join(order) == "abcbcacabacca"
    assert (len(a.samples), b.samples, b.failure) == (5, [2.0, 2.0], "b is lost")
    against = ratio(a, c)
    assert against is not None
    assert (against.median, against.interval) == (4.0, (4.0, 4.0))


def test_each_sample_waits_until_the_last_ones_threads_sleep(monkeypatch):
    done: list[object] = []
    monkeypatch.setattr("tuner.compare.rounds.time.sleep", done.append)

    def sample() -> float:
        done.append("sample")
        return 1.0

    run_rounds([Contender(name="a", sample=sample)], rounds=range(2, 3), seconds=60.0)
    assert done == [rounds.REST, "sample", rounds.REST, "sample"]


def test_rounds_end_after_their_time_but_not_before_the_fewest():
    entrant = Contender(name="a", sample=lambda: 1.0)
    run_rounds([entrant], rounds=range(3, 50), seconds=0.0)
    assert len(entrant.samples) == 3


def test_row_says_whether_its_error_is_within_tolerance():
    row = Row(name="a", precision="fp16", max_error=0.5, tolerance=0.4)
    assert row.holds is False
    assert Row(name="a", precision="fp16", tolerance=0.4).holds is None


def test_bars_fill_their_line_and_no_more():
    bars = [Bar(label=f"contender {n}", value=float(n * n), text=f"{n * n} ms") for n in (1, 3, 9)]
    lines = bar_lines(bars)
    assert [len(line) for line in lines] == [80, 80, 80]
    full = [line.count("█") for line in lines]
    assert full[2] == 80 - len("contender 9") - len("81 ms") - 2
    assert full[1] == full[2] // 9
    assert bar_lines([]) == []


def test_plot_is_well_formed_and_drawn_to_scale(tmp_path):
    bars = [
        Bar(label="floor", value=1.0, text="1 ms", kind="floor"),
        Bar(label="<ours> & $more$ 速", value=2.0, text="2 ms", kind="ours", interval=(1.5, 4.0)),
    ]
    figure = bar_figure("title", "sub", bars)
    write_picture(tmp_path / "bars.svg", figure)
    root = ET.parse(tmp_path / "bars.svg").getroot()
    (axes,) = figure.axes
    drawn: Any = axes
    widths = [each.get_width() for each in drawn.patches]
    assert widths[1] == pytest.approx(2 * widths[0])
    assert [each.get("id") for each in root.iter() if each.get("id", "").startswith("bar ")] == ["bar 0", "bar 1"]
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert {"<ours> & $more$ 速", "floor", "  1 ms", "  2 ms"} <= set(texts)
    edge = axes.get_window_extent().x1
    ends = [path.vertices[:, 0].max() for each in drawn.collections for path in each.get_paths()]
    assert ends == [pytest.approx(4000)]
    assert all(axes.transData.transform((end, 0))[0] <= edge for end in ends)
    assert all(each.get_window_extent().x1 <= figure.bbox.x1 for each in axes.texts)


# --- the command -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with one small finished study."""
    from small_run import Silent

    from tuner.kernels.loading import builtin_templates
    from tuner.problems.conv.layers import find_layer
    from tuner.tuning import RunOptions, tune

    url = f"sqlite:///{tmp_path_factory.mktemp('compare')}/t.db"
    options = RunOptions(
        problem=find_layer(SIZES[1], 9),
        device="cpu",
        templates=(builtin_templates()["direct"],),
        storage=url,
        sampler="random",
        trials=4,
    )
    assert tune(options, Silent()).winner is not None
    return url


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(capsys, *arguments):
    code = _run(["compare", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["--layer", "conv2", "--device", "cpu", "--storage", "none.db"],
            1,
            ["tune run --layer sp18/conv2 --device cpu"],
        ),
        (["--layer", "C=2,H=9,M=3,K=3", "--device", "cpu"], 1, ["tune run --layer C=2,H=9,W=9,M=3,K=3"]),
        (["--layer", "conv2", "--device", "cpu", "--precision", "tf32"], 1, ["--precision tf32 makes one"]),
        (["--layer", "conv2", "--plot", "bars.pdf"], 2, ["'.pdf' is not a kind of plot", ".svg or .png"]),
        (
            ["--layer", "conv2", "--plot", "nowhere/bars.svg"],
            2,
            ["--plot nowhere/bars.svg: folder nowhere does not exist; create it"],
        ),
        (["--layer", "conv9"], 2, ["'conv9' is unknown"]),
    ],
)
def test_what_cannot_be_compared_is_one_line(capsys, empty_folder, arguments, code, words):
    got, _, err = command(capsys, *arguments)
    assert (got, err.count("\n")) == (code, 1)
    for word in words:
        assert word in err
    assert list(empty_folder.iterdir()) == []


def test_store_without_this_layer_names_the_run_that_makes_it(capsys, store):
    code, _, err = command(capsys, "--layer", "conv1", "--device", "cpu", "--batch", "50", "--storage", store)
    assert (code, err.count("\n")) == (1, 1)
    assert (
        f"tune run --layer sp18/conv1 --device cpu --batch 50 --storage {store.removeprefix('sqlite:///')} makes one"
        in err
    )


@pytest.mark.parametrize("text", ["C2H12W11M3K3", "C2H12W11M3K3 cpu", "1", "C=2,H=12,W=11,M=3,K=3,B=9"])
def test_study_has_the_same_names_in_compare_as_in_show(capsys, store, monkeypatch, text):
    taken = []

    def stop(asked, says):
        taken.append(asked)
        raise TunerError("seen")

    monkeypatch.setattr("tuner.compare.compare", stop)
    with Store.open(store) as opened:
        handle = opened.find_study(text)
    code, _, err = command(capsys, "--layer", text, "--device", "cpu", "--storage", store)
    assert (code, err) == (1, "tune: seen\n")
    (asked,) = taken
    assert (asked.problem, asked.precision, asked.study) == (
        handle.problem,
        "fp32",
        None if "=" in text else handle.name,
    )
    (found,) = best_found(asked)
    assert found.study == handle.name


def test_layer_is_compared_where_its_newest_winner_is(capsys, tmp_path, monkeypatch):
    """The batch and precision of ``tune best conv2``, not those that a new study would have."""
    url, taken = str(tmp_path / "t.db"), []
    with Store.open(url) as store:
        for batch, won in ((100, True), (7, True), (9, False)):
            handle = store.study(toy_key(batch=batch), ENVIRONMENT, TEMPLATES)
            handle.record(final(0))
            if won:
                handle.set_winner(toy_configuration(0))

    def stop(asked, says):
        taken.append(asked)
        raise TunerError("seen")

    monkeypatch.setattr("tuner.compare.compare", stop)
    code, _, err = command(capsys, "conv2", "--device", "cpu", "--storage", url)
    assert code == 1
    assert err.splitlines() == [
        f"'conv2' is taken for '{toy_key(batch=7).name}': the newest of 3 that has a verified winner",
        "tune: seen",
    ]
    command(capsys, "conv2", "--device", "cpu", "--batch", "100", "--storage", url)
    command(capsys, "conv2", "--device", "cpu", "--batch", "9", "--storage", url)
    assert [asked.problem.B for asked in taken] == [7, 100, 9]
    with pytest.raises(NoWinner, match=f"study '{toy_key(batch=9).name}': no verified winner yet"):
        best_found(taken[-1])


def test_study_at_another_batch_or_precision_names_the_run_that_makes_it(capsys, store):
    for more in (("--batch", "10"), ("--precision", "fp16")):
        code, _, err = command(capsys, "--layer", "C2H12W11M3K3", *more, "--device", "cpu", "--storage", store)
        assert (code, err.count("\n")) == (1, 1)
        assert "tune run --layer C=2,H=12,W=11,M=3,K=3" in err
        assert " ".join(more) in err


def test_comparison_checks_and_times_all_and_a_dying_variant_is_a_line(capsys, store, torch, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_TORCH", "dies_on_channels_last")
    plot = tmp_path / "bars.svg"
    code, out, err = command(capsys, *SIZES, "--storage", store, "--json", "--plot", str(plot))
    assert code == 0, err
    done = json.loads(out)
    rows = {row["name"]: row for row in done["rows"]}
    assert done["pytorch"] == "PyTorch 9.9+fake"
    assert "exit code 7" in rows["PyTorch FP32 channels-last"]["failure"]
    assert rows["2017 final kernel"]["failure"].startswith("not valid for this layer")
    for name in ("tuner's best", "naive 32x32 (B,M,1)", "PyTorch FP32 NCHW"):
        row = rows[name]
        assert len(row["samples_ms"]) >= 9
        assert row["interval_ms"][0] <= row["median_ms"] <= row["interval_ms"][1]
        assert row["within_tolerance"] is True
        assert row["relative_error"] < 1e-5
    assert rows["tuner's best"]["ratio_to_ours"] == 1
    assert rows["PyTorch FP32 NCHW"]["ratio_interval"][0] > 0
    assert len([e for e in ET.parse(plot).iter() if e.get("id", "").startswith("bar ")]) == 4


@pytest.mark.parametrize(("fault", "outcome"), [("off_by_one", "wrong_result"), ("hash_error", "does not compile")])
def test_winner_that_is_wrong_now_ends_the_comparison(tmp_path, monkeypatch, fault, outcome):
    from faulty import faulty
    from small_run import LAYER, run

    monkeypatch.setattr("tuner.compare.contest.installed", lambda: False)
    template = faulty("none", fault, threads=(64,))
    report = run(tmp_path, template, trials=1)
    url = f"sqlite:///{tmp_path}/t.db"
    with Store.open(f"sqlite:///{tmp_path}/tuner.db") as there, Store.open(url) as here:
        handle = there.find_study(report.progress.study)
        copy = here.study(handle.key, handle.environment, (template,))
        broken = template.configuration({"FAULT": fault})
        copy.record(replace(changed(handle.results()[0], confirmed=True), configuration=broken, settled=1.0))
        copy.set_winner(broken)
    asked = CompareOptions(problem=LAYER, device="cpu", storage=url, templates=(template,))
    with pytest.raises(TunerError, match=outcome):
        compare(asked, lambda line: None)


def test_plot_as_png_is_an_image(tmp_path):
    bars = [Bar(label="a", value=1e-3, text="1 ms", interval=(9e-4, 2e-3)), Bar(label="b", value=2e-3, text="2 ms")]
    write_picture(tmp_path / "bars.png", bar_figure("title", "sub", bars))
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


def test_comparison_without_pytorch_prints_the_rest_and_how_to_install_it(capsys, store, monkeypatch):
    monkeypatch.setattr("tuner.compare.contest.installed", lambda: False)
    code, out, err = command(capsys, *SIZES, "--storage", store)
    assert code == 0, err
    assert "pip install torch" in out
    assert "naive 32x32 (B,M,1)" in out
    assert "█" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.gpu
def test_cudnn_of_every_precision_is_timed_and_as_exact_as_it_should_be(capsys, tmp_path):
    pytest.importorskip("torch")
    store = f"sqlite:///{tmp_path}/t.db"
    shape = ("--layer", "sp18/conv2", "--batch", "1000", "--device", "cuda:0", "--storage", store)
    assert _run(["run", *shape, "--trials", "40"]) == 0
    capsys.readouterr()
    code, out, err = command(capsys, *shape, "--json")
    assert code == 0, err
    rows = {row["name"]: row for row in json.loads(out)["rows"]}
    assert [name for name, row in rows.items() if row["failure"]] == []
    assert rows["2017 final kernel"]["within_tolerance"]
    for layout in ("NCHW", "channels-last"):
        for precision in ("FP32", "TF32", "FP16", "BF16"):
            row = rows[f"cuDNN {precision} {layout}"]
            print(row["name"], row["median_ms"], row["ratio_to_ours"], row["relative_error"], row["within_tolerance"])
            assert row["relative_error"] < {"FP32": 1e-5, "TF32": 5e-3, "FP16": 5e-3, "BF16": 5e-2}[precision]
