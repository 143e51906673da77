"""One winner everywhere: every command, the note and Optuna name the same trial, and only a settled one may win."""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import optuna
import pytest
from command import SMALL, tune
from faulty import faulty
from older_stores import with_columns_of_layers
from small_run import run
from stand_in import InstantCompiler, InstantWorker
from toy_store import ENVIRONMENT, TEMPLATES, changed, final, toy_configuration, toy_failure, toy_key, toy_ok

from tuner.bench.protocol import Heat, Task
from tuner.bench.worker import Worker
from tuner.results import Result
from tuner.storage import Store, StudyHandle
from tuner.tuning import pipeline, session
from tuner.tuning.finals import finalists, rank
from tuner.tuning.finals_notes import finals_notes
from tuner.tuning.rematch import another_was_faster

LAYER = "C2H12W11M3K3"


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[StudyHandle]:
    with Store.open(tmp_path / "tuner.db") as store:
        yield store.study(toy_key(), ENVIRONMENT, TEMPLATES)


def optunas(where: str | Path, name: str) -> optuna.trial.FrozenTrial:
    """Return Optuna's best trial of a study, by Optuna's own means."""
    with Store.open(where) as store:
        storage = store.optuna_storage()
        found = optuna.load_study(study_name=name, storage=storage).best_trial
        storage.engine.dispose()
        return found


# What the store says


@pytest.mark.parametrize(
    "other",
    [
        toy_ok(1, 0.5e-3),
        toy_ok(1, 0.5e-3, confirmed=True),
        changed(final(1, 0.5e-3), confirmed=False),
        final(1, 0.5e-3, began=50.0),
        final(1, 0.999e-3),
        final(1, 1e-3),
    ],
    ids=["unconfirmed", "unsettled", "settled, unconfirmed", "of earlier finals", "tied", "equal"],
)
@pytest.mark.parametrize("later", [False, True], ids=["before the choice", "after it"])
def test_what_only_reads_as_fast_as_the_winner_is_not_optunas_best(
    handle: StudyHandle, tmp_path: Path, other: Result, later: bool
) -> None:
    handle.record_all([toy_ok(2, 3e-3), final(0)] if later else [other, final(0)])
    handle.set_winner(toy_configuration(0))
    if later:
        handle.record(other)
    champion, best = handle.champion(), optunas(tmp_path / "tuner.db", handle.name)
    assert champion is not None
    assert champion.result == final(0)
    assert best.number == champion.trial
    assert best.value == pytest.approx(1.0)
    with sqlite3.connect(tmp_path / "tuner.db") as db:
        (why,) = db.execute("select value_json from trial_user_attributes where key = 'apart'").fetchone()
    db.close()
    assert f"trial {champion.trial}" in why


def test_trial_that_wins_the_next_finals_is_optunas_best_again(handle: StudyHandle, tmp_path: Path) -> None:
    handle.record_all([final(0, 2e-3), toy_ok(1, 1e-3)])
    handle.set_winner(toy_configuration(0))
    assert optunas(tmp_path / "tuner.db", handle.name).number == 0
    handle.record_all([final(0, 2e-3, began=200.0), final(1, 1.1e-3, began=200.0)])
    assert optunas(tmp_path / "tuner.db", handle.name).number == 0
    handle.set_winner(toy_configuration(1))
    assert optunas(tmp_path / "tuner.db", handle.name).number == 1
    assert "trial 1" in handle.read_note()


def test_winner_that_fails_later_is_none_and_nothing_stays_apart(handle: StudyHandle, tmp_path: Path) -> None:
    handle.record_all([final(0), toy_ok(1, 0.5e-3)])
    handle.set_winner(toy_configuration(0))
    handle.record(toy_failure(0, "wrong_result"))
    assert handle.champion() is None
    assert optunas(tmp_path / "tuner.db", handle.name).number == 1


def test_store_without_finals_has_no_winner_and_names_the_fastest_in_its_note(handle: StudyHandle) -> None:
    handle.record_all([toy_ok(0, 2e-3, confirmed=True), toy_ok(1, 1e-3, pruned=True)])
    handle.note()
    assert handle.champion() is None
    assert "**Winner:** none yet; the fastest so far is trial 0: 2" in handle.read_note()


def test_older_store_keeps_the_winner_of_its_finals(handle: StudyHandle, tmp_path: Path) -> None:
    handle.record_all([toy_ok(0, 1e-3, confirmed=True), toy_ok(1, 0.5e-3, confirmed=True)])
    handle.set_winner(toy_configuration(0))
    path = tmp_path / "tuner.db"
    with sqlite3.connect(path) as db:
        db.execute("alter table tuner_result drop column settled")
        db.execute("alter table tuner_result drop column searched")
        with_columns_of_layers(db)
        db.execute("update tuner_schema set version = 2")
    db.close()
    with Store.open(path) as store:
        champion = store.find_study(handle.name).champion()
    assert champion is not None
    assert (champion.trial, champion.result.confirmed) == (0, True)
    assert optunas(path, handle.name).number == 0


# What the finals decide


def test_winner_so_far_defends_its_place() -> None:
    results = [toy_ok(number, 1e-3 * (1 + number)) for number in range(8)]
    champion = results[7].configuration.key
    assert finalists(results, frozenset(), champion) == [*results[:5], results[7]]
    assert finalists(results, frozenset(), "") == results[:5]
    assert finalists(results, frozenset(each.configuration.key for each in [*results[:5], results[7]]), champion) == []


def noisy(result: Result, spread: float) -> Result:
    assert result.measurement is not None
    median = result.seconds
    samples = tuple(median * (1 + spread * step / 5) for step in (-5, 5, -4, 4, -3, 3, 0, 2, -2, 1, -1))
    return changed(result, measurement=dataclasses.replace(result.measurement, samples=samples))


@pytest.mark.parametrize(("spread", "winner"), [(0.02, 1), (0.5, 0)])
def test_simplest_wins_a_tie_only_where_the_noise_is_small(spread: float, winner: int) -> None:
    fast, simple = noisy(final(0, 1e-3), spread), noisy(final(1, 1.003e-3), spread)
    end = rank([simple, fast], lambda result: 0.0 if result is simple else 1.0)  # type: ignore[arg-type,return-value]
    assert end.ranking[0] == (fast, simple)[winner]
    assert len(end.tied) == 2


def test_what_is_slower_by_nearly_a_percent_is_no_tie() -> None:
    fast, simple = noisy(final(0, 1e-3), 0.001), noisy(final(1, 1.008e-3), 0.001)
    end = rank([simple, fast], lambda result: 0.0 if result is simple else 1.0)  # type: ignore[arg-type,return-value]
    assert (end.ranking[0], end.tied) == (fast, frozenset())


def test_only_what_was_measured_beside_the_fastest_ties_with_it() -> None:
    fast, other = final(0, 1e-3), final(1, 1.001e-3, began=50.0)
    end = rank([fast, other], lambda result: result is fast)
    assert (end.ranking[0], end.tied) == (fast, frozenset())


def test_what_does_not_hold_is_said_with_both_times() -> None:
    held, fell, failed = final(0, 6e-3), final(1, 9.34e-3), toy_failure(2, "wrong_result", "3 of 9 are wrong\nmore")
    before = {held.configuration.key: 5.9e-3, fell.configuration.key: 5.252e-3, failed.configuration.key: 5e-3}
    numbers = {each.configuration.key: 17 + place for place, each in enumerate((held, fell, failed))}
    lines = finals_notes(before, (held, fell, failed), held, lambda result: numbers[result.configuration.key])
    assert lines == [
        "finals: trial 19 failed there: wrong_result: 3 of 9 are wrong",
        "finals: trial 18's 5.252 ms did not hold (9.34 interleaved)",
    ]
    before[held.configuration.key] = 5e-3
    assert finals_notes(before, (held,), held, lambda result: 17) == [
        "finals: trial 17 won with 6 ms, where the search had measured 5"
    ]


class Steady(InstantWorker):
    """Configurations take a second each, or as long as they are told in the finals; none: there was no time for it."""

    finals_of: ClassVar[dict[int, float]] = {}

    def seconds_of(self, source: str) -> float:
        return 1.0

    def finals(self, tasks: list[Task], heat: Heat, unless: object = False) -> list[tuple[float, ...]]:
        told = [
            [self.finals_of.get(each) for each in self.finals_of if f"THREADS {each}\n" in task.rendered.source]
            for task in tasks
        ]
        return [(each[0],) * heat.most if each and each[0] else () for each in told]


@pytest.mark.parametrize(("seconds", "winner"), [(1000.0, 8), (None, 64)])
def test_winner_that_could_not_be_measured_in_time_is_not_deposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None, winner: int
) -> None:
    monkeypatch.setattr(pipeline, "Compiler", InstantCompiler)
    monkeypatch.setattr(session, "Worker", lambda *_: Steady())
    template = faulty("none", threads=(8, 64))
    monkeypatch.setattr(Steady, "finals_of", {8: 1.0, 64: 2.0})
    first = run(tmp_path, template).winner
    assert first is not None
    assert first.configuration.as_dict()["THREADS"] == 8
    monkeypatch.setattr(Steady, "finals_of", {8: 0.0, 64: 0.5})
    second = run(tmp_path, template, seconds=seconds).winner
    assert second is not None
    assert second.configuration.as_dict()["THREADS"] == winner


# What the commands say


class Answers:
    """Every command's word on a study's winner."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys, self.folder = capsys, folder
        self.store = f"sqlite:///{folder}/tuner.db"

    def ask(self, *words: str) -> str:
        code, out, err = tune(self._capsys, *words, "--storage", self.store)
        assert code == 0, err
        return out

    def run(self, *more: str) -> dict[str, object]:
        report: dict[str, object] = json.loads(self.ask("run", *SMALL, "--device", "cpu", "--json", *more))
        return report

    def trials(self, export: bool = False) -> dict[str, int | None]:
        """Return the trial that each command names; the export, which runs it once more, only if asked."""
        study = json.loads(self.ask("list", "--json"))[0]
        shown = json.loads(self.ask("show", LAYER, "--json"))
        named = {
            "list --json": study["winner"],
            "list": int(_under("winner", self.ask("list"))),
            "show --json": shown["winner"],
            "show": _number(r"^winner: trial (\d+)", self.ask("show", LAYER)),
            "show, marked": _number(r"^ *\*(\d+) ", self.ask("show", LAYER)),
            "best --json": json.loads(self.ask("best", LAYER, "--json"))["trial"],
            "best": _number(r": trial (\d+), ", self.ask("best", LAYER)),
            "Optuna": optunas(self.store, study["study"]).number,
        }
        if export:
            named["export"] = _number(r"^trial (\d+): ", self.ask("export", LAYER, "-o", str(self.folder / "best.h")))
            named["header"] = _number(r"trial (\d+)", (self.folder / "best.h").read_text())
        with Store.open(self.store) as store:
            named["note"] = _number(r"\*\*Winner:\*\* trial (\d+): ", store.find_study(LAYER).read_note())
        return named


def _under(title: str, text: str) -> str:
    """Return what stands in a table's first row under a title, both aligned to the right."""
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if title in line)
    return lines[head + 2][: lines[head].index(title) + len(title)].split()[-1]


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text, re.MULTILINE)
    return int(found[1]) if found else None


def test_every_command_names_the_winner_that_the_run_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(capsys, tmp_path)
    first = answers.run("--trials", "5")
    assert set(answers.trials().values()) == {first["winner"]}
    compared = json.loads(answers.ask("compare", *SMALL[:4], "--layer", LAYER, "--device", "cpu", "--json"))
    assert compared["trial"] == first["winner"]

    second = answers.run("--trials", "2")
    with Store.open(answers.store) as store:  # a third run's search found something faster and was killed
        handle = store.find_study(LAYER)
        champion = handle.champion()
        assert champion is not None
        slow = next(each for each in handle.results() if each.ok and each != champion.result)
        assert slow.measurement is not None
        quick = dataclasses.replace(slow.measurement, samples=(champion.result.seconds / 9,) * 7, pruned=False)
        handle.record(dataclasses.replace(changed(slow, measurement=quick, confirmed=False), settled=0.0))
    assert set(answers.trials().values()) == {second["winner"]}

    monkeypatch.setattr(StudyHandle, "set_winner", _interrupted)  # the next one's finals are measured, not decided
    code, _, err = tune(capsys, "run", *SMALL, "--device", "cpu", "--trials", "1", "--storage", answers.store)
    assert (code, "Traceback" in err) == (130, False)
    monkeypatch.undo()
    assert set(answers.trials().values()) == {second["winner"]}

    last = answers.run("--trials", "1")
    assert set(answers.trials(export=True).values()) == {last["winner"]}

    written = (tmp_path / "best.h").read_bytes()  # sources or tools have changed since
    with sqlite3.connect(tmp_path / "tuner.db") as db:
        db.execute("update tuner_result set fingerprint = 'of another day'")
    db.close()
    code, _, err = tune(capsys, "export", LAYER, "-o", str(tmp_path / "best.h"), "--storage", answers.store)
    assert (code, err.count("\n")) == (2, 1)
    assert "its winner is stale" in err
    assert (tmp_path / "best.h").read_bytes() == written


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_run_whose_finals_could_not_be_held_names_no_winner(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(capsys, tmp_path)
    monkeypatch.setattr(Worker, "finals", lambda *_: [])
    out = answers.ask("run", *SMALL, "--device", "cpu", "--trials", "2")
    assert "no verified winner yet" in out
    assert "tune export" not in out
    assert "no verified winner yet" in answers.ask("show", LAYER)
    assert json.loads(answers.ask("list", "--json"))[0]["winner"] is None
    for words in (
        ("best", LAYER),
        ("export", LAYER, "-o", str(tmp_path / "best.h")),
        ("verify", "--study", LAYER),
        ("compare", LAYER, "--device", "cpu"),
    ):
        code, _, err = tune(capsys, *words, "--storage", answers.store)
        assert (code, err.count("\n")) == (1, 1), words
        assert "no verified winner yet; tune run --layer" in err
    assert not (tmp_path / "best.h").exists()


def stand_in(**attributes: object) -> Any:
    return SimpleNamespace(**attributes)


@pytest.mark.parametrize(
    ("theirs", "entered", "kept"),
    [(0.8, False, True), (1.2, False, False), (0.8, True, False), (None, False, False)],
    ids=["faster", "slower", "was in these finals", "none"],
)
def test_faster_winner_that_another_run_settled_meanwhile_is_kept(theirs, entered, kept):
    other, ours = (stand_in(configuration=SimpleNamespace(key=key)) for key in ("other", "ours"))
    other.seconds, ours.seconds = theirs, 1.0
    champion: Any = None if theirs is None else SimpleNamespace(result=other)
    before = {"other": 1.0, "ours": 1.0} if entered else {"ours": 1.0}
    assert another_was_faster(champion, before, ours) is kept
    assert not another_was_faster(champion, before, None)
