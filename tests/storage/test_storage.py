"""The store: what is written comes back, in our types and in Optuna's; bad input is one line and changes nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from sqlalchemy import event, select, update
from toy_store import ENVIRONMENT, TEMPLATES, changed, plain_optuna, toy_configuration, toy_failure, toy_key, toy_ok

from tuner.errors import StorageError, StudyMismatch, TunerError, UsageError
from tuner.results import StudyKey, Telemetry
from tuner.storage import COMPILE, LAUNCH, Store, StudyHandle, Writer
from tuner.storage.claims import Claim
from tuner.storage.processes import CLOCK_SLACK
from tuner.storage.schema import SchemaRow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuner.db"


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A new store's bytes: making one takes longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "tuner.db"
    Store.open(path).close()
    return path.read_bytes()


@pytest.fixture
def store(path: Path, empty_store: bytes) -> Iterator[Store]:
    path.write_bytes(empty_store)
    with Store.open(path) as opened:
        yield opened


@pytest.fixture
def handle(store: Store) -> StudyHandle:
    return store.study(toy_key(), ENVIRONMENT, TEMPLATES)


def refusal(where: Path | str, *, create: bool = True) -> TunerError:
    """Open what cannot be opened, and return the one-line error."""
    with pytest.raises((UsageError, StorageError)) as caught:
        Store.open(where, create=create).close()
    assert "\n" not in str(caught.value)
    return caught.value


def files_of(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


# What is written comes back


def test_results_come_back_equal(handle: StudyHandle) -> None:
    measured = toy_ok(0)
    assert measured.measurement
    telemetry = Telemetry(clock_mhz=1980.0, temperature_c=55.0, power_w=300.5, throttle="power cap")
    measured = changed(measured, measurement=dataclasses.replace(measured.measurement, telemetry=telemetry))
    measured = dataclasses.replace(measured, baseline="naive")
    written = [measured, toy_ok(1, pruned=True), toy_failure(2, "wrong_result"), toy_failure(3, "timed_out")]
    assert [handle.record(result) for result in written] == [0, 1, 2, 3]
    assert handle.results() == written
    assert handle.counts() == {"ok": 2, "wrong_result": 1, "timed_out": 1}
    assert handle.trial_number(toy_configuration(2)) == 2
    assert handle.trial_number(toy_configuration(50)) is None


def test_study_resumes_when_asked_for_again(path: Path) -> None:
    with Store.open(path) as first:
        first.study(toy_key(), ENVIRONMENT, TEMPLATES).record(toy_ok(0))
    with Store.open(path, create=False) as second:
        again = second.study(toy_key(), ENVIRONMENT, TEMPLATES)
        assert again.results() == [toy_ok(0)]
        assert again.key == toy_key()
        assert again.environment == ENVIRONMENT
        assert len(second.studies()) == 1


def test_results_keep_the_environment_they_were_measured_in(store: Store, handle: StudyHandle) -> None:
    handle.record(toy_ok(0))
    newer = store.study(toy_key(), dataclasses.replace(ENVIRONMENT, driver="PoCL 6"), TEMPLATES)
    newer.record(toy_ok(1))
    assert newer.environment_of(toy_configuration(0)).driver == "PoCL 3.0"
    assert newer.environment_of(toy_configuration(1)).driver == "PoCL 6"
    assert store.find_study(handle.name).environment.driver == "PoCL 6"


def test_study_with_other_choices_is_refused(store: Store, handle: StudyHandle) -> None:
    with pytest.raises(StudyMismatch, match="other parameters"):
        store.study(toy_key(), ENVIRONMENT, TEMPLATES[::-1])


def test_measuring_again_replaces_the_result_and_keeps_the_trial(store: Store, handle: StudyHandle) -> None:
    handle.record_all([toy_ok(0, 1e-3), toy_ok(1, 2e-3)])
    assert handle.record(changed(toy_ok(0, 5e-3), confirmed=True)) == 0
    assert [result.seconds for result in handle.results()] == [5e-3, 2e-3]
    study = optuna.load_study(study_name=handle.name, storage=store.optuna_storage())
    assert study.best_trial.number == 1
    assert [trial.value for trial in study.trials] == [5.0, 2.0]


@pytest.mark.parametrize(
    "wrong",
    [
        changed(toy_ok(0), outcome="perfect"),
        changed(toy_ok(0), measurement=None),
        toy_ok(0, float("nan")),
        toy_ok(0, float("inf")),
        dataclasses.replace(toy_ok(0), configuration=dataclasses.replace(toy_configuration(0), template="new")),
    ],
    ids=["outcome", "unmeasured", "nan", "inf", "template"],
)
def test_result_that_must_not_be_stored_is_refused(handle: StudyHandle, wrong: object) -> None:
    with pytest.raises(UsageError):
        handle.record_all([toy_ok(1), wrong])  # type: ignore[list-item]
    assert handle.results() == []


# Optuna's view


def test_optuna_reads_what_was_recorded(store: Store, handle: StudyHandle, path: Path) -> None:
    handle.record_all([toy_ok(0, 2e-3), toy_ok(1, 3e-3, pruned=True), toy_failure(2, "compile_error", "bad\nworse")])
    handle.record(dataclasses.replace(toy_failure(5, "crashed"), configuration=TEMPLATES[1].configuration({})))
    study = optuna.load_study(study_name=handle.name, storage=store.optuna_storage())
    assert study.metric_names == ["ms"]
    assert study.best_value == pytest.approx(2.0)
    complete, pruned, failed, other = study.trials
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.FAIL]
    assert pruned.values == [pytest.approx(3.0)]
    assert failed.values is None
    assert complete.params == {"template": "toy", "TILE_WIDTH": 8, "GRID_LAYOUT": "B,M", "PADDING": 1}
    assert other.params == {"template": "other", "TILE_WIDTH": 4, "VECTOR": 1}
    shared = optuna.distributions.CategoricalDistribution((8, 16, 32, 4))
    assert complete.distributions["TILE_WIDTH"] == other.distributions["TILE_WIDTH"] == shared
    assert complete.distributions["template"].choices == ("toy", "other")  # type: ignore[attr-defined]
    attributes = complete.user_attrs
    assert attributes["gflops"] == pytest.approx(handle.problem.flop / 2e-3 / 1e9, rel=1e-3)
    assert 0 < attributes["percent_of_floor"] < 100
    assert attributes["interval_ms"] == pytest.approx([1.98, 2.02], rel=0.02)
    assert (attributes["samples"], attributes["registers"], attributes["shared_bytes"]) == (11, 40, 1024)
    assert failed.user_attrs["error"] == "bad"
    assert failed.user_attrs["outcome"] == "compile_error"
    assert (complete.duration or timedelta()).total_seconds() == pytest.approx(0.8)
    assert study.user_attrs["device"] == "cpu: Test CPU"


def test_optuna_sampler_goes_on_from_our_trials(store: Store, handle: StudyHandle) -> None:
    handle.record_all([toy_ok(number, 1e-3 * (1 + number)) for number in range(12)])
    sampler = optuna.samplers.TPESampler(seed=1)
    study = optuna.load_study(study_name=handle.name, storage=store.optuna_storage(), sampler=sampler)
    trial = study.ask()
    assert trial.suggest_categorical("TILE_WIDTH", handle.choices["TILE_WIDTH"]) in (4, 8, 16, 32)
    study.tell(trial, 9.0)
    assert handle.record(toy_ok(12)) == 13
    assert list(handle.numbered()) == [*range(12), 13]


def test_note_explains_the_study(handle: StudyHandle) -> None:
    assert "none yet" in handle.read_note()
    handle.record_all([toy_ok(0, 2e-3, confirmed=True), toy_failure(1, "crashed")])
    handle.note()
    text = handle.read_note()
    for needed in ("sp18/conv2", "Test CPU", "2 ms", "1 ok, 1 crashed", "tune run", "tune export", "TILE_WIDTH=8"):
        assert needed in text
    handle.note("long " * 2000)
    assert handle.read_note() == "long " * 2000
    handle.note("short")
    assert handle.read_note() == "short"


def test_dashboard_note_reader_agrees(store: Store, handle: StudyHandle) -> None:
    dashboard = pytest.importorskip("optuna_dashboard")
    study = optuna.load_study(study_name=handle.name, storage=store.optuna_storage())
    assert dashboard.get_note(study) == handle.read_note()


# Finding studies


def test_studies_are_listed_with_counts(store: Store) -> None:
    conv1 = store.study(toy_key("sp18/conv1"), ENVIRONMENT, TEMPLATES)
    conv2 = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
    conv2.record_all([toy_ok(0, 2e-3), toy_ok(1, 1e-3, pruned=True), toy_failure(2, "crashed")])
    conv1.record_all([toy_failure(3, "timed_out"), toy_failure(4, "timed_out")])
    first, second = store.studies()
    assert (first.name, second.name) == (conv1.name, conv2.name)
    assert (first.trials, first.ok, first.best, dict(first.failures)) == (2, 0, None, {"timed_out": 2})
    assert (second.trials, second.ok, second.pruned, second.winner, second.best) == (3, 2, 1, None, None)
    conv2.record(dataclasses.replace(toy_ok(5, 2e-3, confirmed=True), settled=1.0))
    conv2.set_winner(toy_configuration(5))
    (second,) = (each for each in store.studies() if each.name == conv2.name)
    assert (second.winner, second.template) == (3, "toy")
    assert second.best == pytest.approx(2e-3)
    assert second.spread == pytest.approx(0.01, rel=0.5)
    assert dict(second.failures) == {"crashed": 1}
    assert second.last_activity >= first.last_activity > first.created - 1


def test_study_is_found_by_name_id_layer_and_prefix(store: Store) -> None:
    old = store.study(toy_key(space="old"), ENVIRONMENT, TEMPLATES)
    new = store.study(toy_key(space="new"), ENVIRONMENT, TEMPLATES)
    alone = store.study(toy_key("fa18/conv1"), ENVIRONMENT, TEMPLATES)
    assert store.find_study(old.name) == old
    assert store.find_study(str(old.optuna_id)) == old
    assert store.find_study("sp18/conv2") == new
    assert store.find_study("conv2") == new
    assert store.find_study("fa18") == alone


def test_study_of_a_custom_layer_is_found_by_its_sizes(store: Store) -> None:
    small, large = (store.study(_custom_key(batch), ENVIRONMENT, TEMPLATES) for batch in (9, 50))
    for text in ("C=2,H=12,W=11,M=3,K=3", "C2H12W11M3K3", "C=2,H=12,W=11,M=3,K=3,B=50"):
        assert store.find_study(text) == large
    assert store.find_study("B=9,C=2,H=12,W=11,M=3,K=3") == small


def test_study_is_suggested_only_when_it_is_near_and_many_are_shortened(store: Store) -> None:
    names = [store.study(toy_key(space=str(number)), ENVIRONMENT, TEMPLATES).name for number in range(9)]
    for text, near in (("conv3", "conv2"), ("sp19/conv2", "sp18/conv2"), (names[4][:-1] + "x", names[4])):
        with pytest.raises(UsageError, match=rf"study '{text}' is not in .*; did you mean '{near}'\?$"):
            store.find_study(text)
    with pytest.raises(UsageError, match=r"'lenet' is not in .*; there are: ") as caught:
        store.find_study("lenet")
    assert str(caught.value).endswith(
        f"'{names[8]}', '{names[7]}', '{names[6]}', '{names[5]}', '{names[4]}', '{names[3]}' and 3 more"
    )


def _custom_key(batch: int) -> StudyKey:
    return dataclasses.replace(toy_key(), problem="C2H12W11M3K3", shape=(batch, 2, 12, 11, 3, 3))


@pytest.mark.parametrize("text", ["fa18/conv1 gpu", "", "99", "sp18/conv2 cpu"])
def test_unknown_or_ambiguous_study_is_one_line(store: Store, text: str) -> None:
    with pytest.raises(UsageError, match="has no studies"):
        store.find_study(text)
    for batch in (50, 100):
        store.study(toy_key(batch=batch), ENVIRONMENT, TEMPLATES)
    with pytest.raises(UsageError, match=r"could be|there are: 'sp18/conv2 cpu") as caught:
        store.find_study(text)
    assert "\n" not in str(caught.value)


# Claims


def test_configuration_is_claimed_once(store: Store, handle: StudyHandle, path: Path) -> None:
    first, second, third = (toy_configuration(number) for number in range(3))
    assert handle.claim([first, second, first]) == [first, second]
    with Store.open(path) as elsewhere:
        rival = elsewhere.find_study(handle.name)
        assert rival.claim([second, third]) == [third]
    handle.record(toy_ok(0))
    handle.release([second])
    assert handle.claim([first, second, third]) == [second]
    assert [claim.configuration for claim in handle.claims()] == [third, second]
    assert store.stale_claims() == []


def dead_claims(path: Path, study: str, stage: str, count: int) -> None:
    """Claim the first ``count`` configurations in a process that is then gone."""
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[1]); from toy_store import *; from tuner.storage import Store\n"
        "handle = Store.open(sys.argv[2]).find_study(sys.argv[3])\n"
        "handle.claim([toy_configuration(n) for n in range(int(sys.argv[5]))], stage=sys.argv[4], suspects_ok=True)\n"
        "os._exit(9)"
    )
    here = str(Path(__file__).parents[1] / "support")
    done = subprocess.run(
        [sys.executable, "-c", code, here, str(path), study, stage, str(count)], check=False, timeout=300
    )
    assert done.returncode == 9


def test_dead_process_leaves_suspects_that_go_last(store: Store, handle: StudyHandle, path: Path) -> None:
    dead_claims(path, handle.name, LAUNCH, 2)
    assert [claim.configuration for claim in store.stale_claims()] == [toy_configuration(0), toy_configuration(1)]
    with Store.open(path) as reopened:
        again = reopened.find_study(handle.name)
        assert reopened.stale_claims() == []
        assert again.suspects() == [toy_configuration(0), toy_configuration(1)]
        assert again.counts() == {"crashed": 2}
        assert again.claim([toy_configuration(0)]) == []
        assert again.claim([toy_configuration(0)], suspects_ok=True) == [toy_configuration(0)]
        assert again.record(toy_ok(0)) == 0
        assert again.suspects() == [toy_configuration(1)]
        assert [result.outcome for result in again.results()] == ["ok", "crashed"]
    dead_claims(path, handle.name, LAUNCH, 2)
    assert store.close_stale() == 1
    assert handle.suspects() == [toy_configuration(1)]


def test_dead_process_before_launch_leaves_configurations_free(handle: StudyHandle, path: Path) -> None:
    dead_claims(path, handle.name, COMPILE, 2)
    assert handle.claim([toy_configuration(0)]) == [toy_configuration(0)]
    assert handle.suspects() == []


def test_marked_claim_becomes_a_suspect(handle: StudyHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    handle.claim([toy_configuration(0), toy_configuration(1)], stage=COMPILE)
    handle.mark(toy_configuration(1), LAUNCH)
    monkeypatch.setattr("tuner.storage.processes.start_ticks", lambda pid: None)
    assert handle.claim([toy_configuration(0), toy_configuration(1)]) == [toy_configuration(0)]
    assert handle.suspects() == [toy_configuration(1)]


def test_claims_of_another_host_count_as_dead_after_an_hour(
    handle: StudyHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle.claim([toy_configuration(0)])
    (claim,) = handle.claims()
    far = dataclasses.replace(claim, process=dataclasses.replace(claim.process, host="elsewhere"))
    assert far.alive
    assert not dataclasses.replace(far, claimed=time.time() - 3601).alive
    rebooted = dataclasses.replace(claim, process=dataclasses.replace(claim.process, boot="another boot"))
    assert not rebooted.alive


def test_later_process_with_the_same_id_is_another(handle: StudyHandle) -> None:
    handle.claim([toy_configuration(0)])
    (claim,) = handle.claims()

    def started_later(ticks: int) -> Claim:
        return dataclasses.replace(
            claim, process=dataclasses.replace(claim.process, started=claim.process.started - ticks)
        )

    assert claim.process.started > 0
    assert started_later(CLOCK_SLACK).alive  # the clock was set meanwhile
    assert not started_later(CLOCK_SLACK + 1).alive


def test_process_of_which_nothing_was_told_counts_as_dead_after_an_hour(handle: StudyHandle) -> None:
    handle.claim([toy_configuration(0)])
    (claim,) = handle.claims()
    untold = dataclasses.replace(claim, process=dataclasses.replace(claim.process, started=0))
    assert untold.alive
    assert not dataclasses.replace(untold, claimed=time.time() - 3601).alive


# The writer


def test_writer_commits_in_the_background(handle: StudyHandle) -> None:
    with Writer(handle) as writer:
        for number in range(50):
            writer.put(toy_ok(number))
        writer.flush()
        assert writer.pending == 0
        assert [result.fingerprint for result in handle.results()] == [f"print-{number}" for number in range(50)]
        writer.put(toy_ok(60))
    assert len(handle.results()) == 51


def test_writer_reports_a_full_disk_and_goes_on_when_there_is_room(store: Store, handle: StudyHandle) -> None:
    """The page limit stands for the disk: SQLite's own code for a full disk, without one."""
    with store.database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    limit_pages(store, pages + 8)
    writer = Writer(handle)

    def fill() -> None:
        for number in range(300):
            writer.put(toy_ok(number))
            writer.flush()

    with pytest.raises(StorageError, match="the disk is full") as caught:
        fill()
    assert "\n" not in str(caught.value)
    stored = len(handle.results())
    waiting = writer.pending
    assert stored > 0
    assert waiting == 1
    with pytest.raises(StorageError, match="the disk is full"):
        writer.flush()
    limit_pages(store, 1_000_000)
    writer.close()
    writer.close()
    assert len(handle.results()) == stored + waiting


def limit_pages(store: Store, pages: int) -> None:
    store.database.engine.dispose()
    event.listen(store.database.engine, "connect", lambda raw, _: raw.execute(f"PRAGMA max_page_count = {pages}"))


def test_writer_refuses_a_result_that_must_not_be_stored(handle: StudyHandle) -> None:
    with Writer(handle) as writer, pytest.raises(UsageError):
        writer.put(changed(toy_ok(0), outcome="perfect"))
    assert handle.results() == []


def test_writer_can_be_fed_by_several_threads(handle: StudyHandle) -> None:
    def put_twenty(start: int) -> None:
        for number in range(start, start + 20):
            writer.put(toy_ok(number))

    with Writer(handle) as writer:
        threads = [threading.Thread(target=put_twenty, args=(start,)) for start in (0, 20, 40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(handle.trial_number(toy_configuration(n)) or 0 for n in range(60)) == list(range(60))


# Opening what is not a store


def test_default_folder_is_created_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "does not exist" in str(refusal("sqlite:///elsewhere/tuner.db"))
    assert "does not exist" in str(refusal("sqlite:///studies/tuner.db", create=False))
    assert list(tmp_path.iterdir()) == []
    with Store.open() as store:
        assert store.studies() == []
        assert store.url == f"sqlite:///{tmp_path}/studies/tuner.db"
    assert [entry.name for entry in (tmp_path / "studies").iterdir()] == ["tuner.db"]


@pytest.mark.parametrize(
    "where",
    ["sqlite://", "sqlite:///:memory:", "sqlite://studies/tuner.db", "nonsense://", "no such db://x", "sqlite:///file:x?uri=true"],
)  # fmt: skip
def test_url_that_is_no_store_is_a_usage_error(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(refusal(where), UsageError)
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_no_store_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but mine\n" * 20)
    (tmp_path / "half").write_bytes(b"SQLite")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE recipes (id INTEGER)")
        other.commit()
    before = files_of(tmp_path)
    assert "not an SQLite database" in str(refusal(tmp_path / "notes.txt"))
    assert "not an SQLite database" in str(refusal(tmp_path / "half"))
    assert "another program (it has recipes)" in str(refusal(tmp_path / "other.db"))
    assert "is a folder" in str(refusal(tmp_path))
    assert files_of(tmp_path) == before


def test_store_half_made_by_a_killed_process_is_made_anew(path: Path) -> None:
    aside = path.with_name(".tuner.db.new")
    with closing(sqlite3.connect(aside)) as half:
        half.execute("CREATE TABLE studies (study_id INTEGER)")
    with Store.open(path) as store:
        store.study(toy_key(), ENVIRONMENT, TEMPLATES).record(toy_ok(0))
    assert [entry.name for entry in path.parent.iterdir()] == ["tuner.db"]


def test_optuna_database_is_taken_in(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/optuna.db"
    with plain_optuna(tmp_path / "optuna.db") as storage:
        optuna.create_study(storage=storage, study_name="theirs")
    assert "no study of the tuner" in str(refusal(url, create=False))
    with Store.open(url) as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        handle.record(toy_ok(0))
        assert [study.name for study in store.studies()] == [handle.name]
    with plain_optuna(tmp_path / "optuna.db") as storage:
        assert sorted(optuna.get_all_study_names(storage)) == sorted([handle.name, "theirs"])


def test_newer_schema_is_refused(path: Path) -> None:
    with Store.open(path) as store, store.database.writing() as connection:
        connection.execute(update(SchemaRow).values(version=99))
    assert "newer tuner (schema 99" in str(refusal(path))


def test_store_of_another_optuna_is_checked_once(path: Path) -> None:
    with Store.open(path) as store, store.database.writing() as connection:
        connection.execute(update(SchemaRow).values(optuna_version="4.9"))
    for _ in range(2):
        with Store.open(path) as store, store.database.reading() as session:
            assert session.scalar(select(SchemaRow.optuna_version)) == optuna.__version__
    with closing(sqlite3.connect(path)) as plain, plain:
        plain.execute("UPDATE alembic_version SET version_num = 'v99.0'")
        plain.execute("UPDATE tuner_schema SET optuna_version = '9.9'")
    assert "made for another Optuna" in str(refusal(path))


def test_damaged_file_is_reported(path: Path) -> None:
    with Store.open(path) as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        handle.record_all([toy_ok(number) for number in range(200)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "is damaged or cut short" in str(refusal(path))
    path.write_bytes(whole[:100] + b"\xff" * 4000 + whole[4100:])
    assert "is damaged" in str(refusal(path))
    page = 4096
    path.write_bytes(whole[:page] + b"\xff" * (len(whole) - page))
    assert "is damaged" in str(refusal(path))


def test_torn_journal_keeps_what_was_committed_before(path: Path, tmp_path: Path) -> None:
    store = Store.open(path)
    handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
    for number in range(20):
        handle.record(toy_ok(number))
    copy = tmp_path / "copy" / "tuner.db"
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    journal = Path(f"{path}-wal").read_bytes()
    Path(f"{copy}-wal").write_bytes(journal[: len(journal) - 5000])
    store.close()
    with Store.open(copy) as opened:
        kept = opened.find_study(handle.name).results()
    assert kept == [toy_ok(number) for number in range(len(kept))]
    assert 15 <= len(kept) < 20


def test_study_deleted_by_another_program_is_forgotten(path: Path) -> None:
    with Store.open(path) as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        handle.record(toy_ok(0))
        with plain_optuna(path) as storage:
            optuna.delete_study(study_name=handle.name, storage=storage)
        with pytest.raises(StorageError, match="deleted or changed by another program"):
            handle.record(toy_ok(1))
    with Store.open(path) as store:
        assert store.studies() == []
        assert store.study(toy_key(), ENVIRONMENT, TEMPLATES).record(toy_ok(0)) == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB in memory, where this may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_full_disk_is_one_line_and_loses_nothing_stored(small_disk: Path) -> None:
    with Store.open(small_disk / "tuner.db") as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)

        def fill() -> None:
            for number in range(384):
                handle.record(toy_failure(number, "crashed", "x" * 4000))

        with pytest.raises(StorageError, match="the disk is full") as caught:
            fill()
        assert "\n" not in str(caught.value)
        stored = len(handle.results())
    assert 10 < stored < 384
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    with Store.open(small_disk / "tuner.db", create=False) as store:
        assert len(store.find_study(handle.name).results()) == stored


def test_read_only_disk_is_one_line(small_disk: Path) -> None:
    path = small_disk / "tuner.db"
    with Store.open(path) as store:
        store.study(toy_key(), ENVIRONMENT, TEMPLATES)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for where in (path, small_disk / "new.db"):
        error = refusal(where)
        assert "not writable" in str(error)
        assert error.exit_code == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores permission bits; the read-only disk stands for them")
def test_read_only_permissions_are_one_line(path: Path) -> None:
    Store.open(path).close()
    path.chmod(0o444)
    assert "not writable" in str(refusal(path))


def test_results_take_as_few_statements_however_many_they_are(store: Store, handle: StudyHandle) -> None:
    counts = []
    for start in (0, 4):
        handle.record_all([toy_ok(number) for number in range(start, 96 * start + 4)])
        said: list[str] = []

        def count(connection: object, cursor: object, statement: str, *rest: object, said: list[str] = said) -> None:
            said.append(statement)

        event.listen(store.database.engine, "before_cursor_execute", count)
        results = handle.results()
        event.remove(store.database.engine, "before_cursor_execute", count)
        counts.append((len(results), len(said)))
    assert counts[0][0] == 4
    assert counts[1][0] == 384
    assert counts[0][1] == counts[1][1] < 10, counts


def test_samples_are_readable_sql(handle: StudyHandle, path: Path) -> None:
    handle.record(toy_ok(0))
    with closing(sqlite3.connect(path)) as plain:
        (text,) = plain.execute("SELECT seconds FROM tuner_sample").fetchone()
    assert tuple(json.loads(text)) == toy_ok(0).measurement.samples  # type: ignore[union-attr]
