"""Stores in odd places: links, devices, where one may only read. Nothing is destroyed, all else is one line."""

from __future__ import annotations

import os
import re
import resource
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from toy_store import fill, final, toy_configuration, toy_ok

from tuner.cli import main
from tuner.errors import StorageError, TunerError, UsageError
from tuner.storage import Store, foresee, whole_studies


@pytest.fixture
def may_only_read(tmp_path, monkeypatch):
    """A folder whose files may only be read; root, who may write anywhere, is told otherwise."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    yield folder, lambda: _lock(folder, monkeypatch)
    folder.chmod(0o755)


def _lock(folder: Path, monkeypatch) -> None:
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    if os.geteuid() == 0:
        monkeypatch.setattr("tuner.storage.database.may_write", lambda path: False)
        monkeypatch.setattr("tuner.storage.location.may_write", lambda path: False)


def command(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


@pytest.mark.parametrize("journal", [False, True], ids=["closed", "of a killed run"])
def test_store_that_may_only_be_read_is_listed_shown_and_recorded_from(may_only_read, capsys, tmp_path, journal):
    folder, lock = may_only_read
    store = fill(folder / "tuner.db")
    if not journal:
        store.close()
    name = store.studies()[0].name if journal else "conv2"
    lock()
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    where = ("--storage", str(folder / "tuner.db"))
    for arguments in (
        ("list",),
        ("show", name),
        ("show", name, "--explain"),
        ("record", name, "-o", f"{tmp_path}/s.csv"),
    ):
        code, out, err = command(capsys, *arguments, *where)
        assert code == 0, err
        assert out
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
    store.close()


def test_store_that_may_only_be_read_refuses_what_would_be_lost(may_only_read):
    folder, lock = may_only_read
    fill(folder / "tuner.db").close()
    lock()
    with Store.open(folder / "tuner.db", create=False) as store:
        handle = store.find_study("conv2")
        with pytest.raises(StorageError, match="may only be read"):
            handle.record(toy_ok(7))
        with pytest.raises(StorageError, match="may only be read"):
            whole_studies.delete(store, handle)


@pytest.fixture
def full_disk(tmp_path):
    """A disk of 1 MB in memory, and what fills it up."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")

    def fill_up() -> None:
        with (folder / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while ballast.write(b"x" * 4096):
                pass

    yield folder, fill_up
    subprocess.run(["umount", "--lazy", folder], check=True)


DYING = """
import os, sys
from toy_store import fill
from toy_store import toy_configuration
store = fill(sys.argv[1])
store.studies()
store.find_study("conv2").claim([toy_configuration(99)])
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "of a killed run"])
def test_store_on_a_full_disk_is_read_and_says_so_when_it_is_to_be_changed(full_disk, capsys, tmp_path, killed):
    folder, fill_up = full_disk
    path = folder / "tuner.db"
    if killed:
        here = str(Path(__file__).parents[1] / "support")
        subprocess.run(
            [sys.executable, "-c", DYING, str(path)], env={**os.environ, "PYTHONPATH": f"{here}:{here}/.."}, check=False
        )
        assert Path(f"{path}-wal").stat().st_size > 0
    else:
        with fill(path) as store:
            store.find_study("conv2").record(final(20))
            store.find_study("conv2").set_winner(toy_configuration(20))
    fill_up()
    where = ("--storage", str(path))
    for arguments in (
        ("list",),
        ("show", "conv2"),
        ("record", "conv2", "-o", f"{tmp_path}/s.csv"),
        *((("best", "conv2"),) if not killed else ()),
    ):
        code, out, err = command(capsys, *arguments, *where)
        assert (code, err) == (0, ""), arguments
        assert out
    for arguments in (("rename", "conv2", "mine"), ("delete", "conv2", "--yes")):
        code, out, err = command(capsys, *arguments, *where)
        assert (code, out, err.count("\n")) == (1, "", 1), arguments
        assert re.match(r"tune: storage \S+tuner.db: the disk is full \(0.0 MB free\); free some space", err)


def test_store_is_read_where_no_file_may_grow(tmp_path, capsys):
    """The copy to read from is refused too: one line with the remedy, whichever of the two it is."""
    fill(tmp_path / "tuner.db").close()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        code, _, err = command(capsys, "list", "--storage", str(tmp_path / "tuner.db"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, err.count("\n")) == (1, 1)
    assert err.endswith("ulimit -f\n")


def test_link_to_a_store_stays_one(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to("folder/tuner.db")
    foresee(link)
    fill(link).close()
    assert link.is_symlink()
    assert (tmp_path / "folder" / "tuner.db").is_file()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "link.db"]


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "link"])
def test_what_is_no_plain_file_is_refused_and_stays(tmp_path: Path, kind: str):
    where = tmp_path / "odd"
    if kind == "pipe":
        os.mkfifo(where)
    elif kind == "folder":
        where.mkdir()
    elif kind == "link":
        where.symlink_to("/dev/null")
    else:
        try:
            os.mknod(where, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("making a device needs root")
    before = where.lstat()
    for look in (foresee, Store.open, lambda path: Store.open(path, create=False)):
        with pytest.raises(UsageError, match=r"storage .*odd is (a folder|not a plain file)") as caught:
            look(where)
        assert "\n" not in str(caught.value)
    assert (where.lstat().st_mode, where.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert [each.name for each in tmp_path.iterdir()] == ["odd"]


def test_limit_on_the_size_of_files_is_one_line(tmp_path: Path):
    with fill(tmp_path / "tuner.db") as store:
        handle = store.find_study("conv2")
        size = (tmp_path / "tuner.db").stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100_000, before[1]))
        try:
            with pytest.raises(StorageError, match="raise it with ulimit -f") as caught:
                handle.record_all([toy_ok(number) for number in range(12, 160)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "\n" not in str(caught.value)
        assert len(handle.results()) == 12


def test_new_store_has_the_mode_of_the_umask(tmp_path: Path):
    before = os.umask(0o002)
    try:
        fill(tmp_path / "tuner.db").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "tuner.db").stat().st_mode) == 0o664


@pytest.mark.parametrize("name", ["x" * 241, "x" * 300, "/".join(["y" * 100] * 6)])
def test_long_name_is_one_line(tmp_path: Path, name: str):
    for look in (foresee, Store.open, lambda path: Store.open(path, create=False)):
        with pytest.raises(TunerError, match="shorter") as caught:
            look(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_name_as_long_as_may_be_is_a_store(tmp_path: Path):
    fill(tmp_path / ("x" * 240)).close()
    assert [each.name for each in tmp_path.iterdir()] == ["x" * 240]
