"""What is written where somebody asked for it: plain files whole, devices and pipes through, nothing else replaced."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tuner.errors import UsageError
from tuner.files import refuse_unwritable, write_whole

ROOT = os.geteuid() == 0


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_new_file_has_the_mode_of_the_umask_and_an_old_one_keeps_its_own(tmp_path: Path, umask):
    write_whole(tmp_path / "new", b"text")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_whole(tmp_path / "new", b"more")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604
    assert (tmp_path / "new").read_bytes() == b"more"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("there", [True, False])
def test_link_is_followed_and_stays(tmp_path: Path, there: bool):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to("folder/target")
    if there:
        target.write_text("old")
    refuse_unwritable(link, "header")
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_device_is_written_through_and_still_a_device(tmp_path: Path):
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.open("wb").close()
    except PermissionError:
        pytest.skip("making a device needs root, and a file system with devices")
    refuse_unwritable(device, "header")
    write_whole(device, b"text")
    assert device.is_char_device()
    assert [each.name for each in tmp_path.iterdir()] == ["null"]


def test_pipe_is_written_through(tmp_path: Path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    refuse_unwritable(pipe, "header")
    write_whole(pipe, b"x" * 200_000)
    reader.join()
    assert got == [b"x" * 200_000]
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_standard_output_is_written_where_it_stands(tmp_path: Path, name: str):
    """It may be a file, which others write to as well: replacing that would take it from under them."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = (
        "from pathlib import Path; from tuner.files import refuse_unwritable, write_whole\n"
        f"print('before'); refuse_unwritable(Path({name!r}), 'x'); write_whole(Path({name!r}), b'text\\n')\n"
        "print('after')"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(
            [sys.executable, "-c", code], stdout=out, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}
        )
    assert (tmp_path / "out").read_text() == "before\ntext\nafter\n"


@pytest.mark.parametrize("name", ["", "missing/file", "x" * 300, "loop", "file/inside"])
def test_what_cannot_be_written_is_refused_before_the_work_in_one_line(tmp_path: Path, name: str):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^header ") as caught:
        refuse_unwritable(tmp_path / name, "header")
    assert "\n" not in str(caught.value)
    with pytest.raises(OSError, match=r"."):
        write_whole(tmp_path / name, b"text")


@pytest.mark.skipif(ROOT, reason="root may write anywhere")
@pytest.mark.parametrize("mode", ["file", "folder"])
def test_what_may_not_be_written_is_refused(tmp_path: Path, mode: str):
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "file"
    if mode == "file":
        file.touch(0o444)
    else:
        folder.chmod(0o555)
    with pytest.raises(UsageError, match="Permission denied; give a file in a folder you may write"):
        refuse_unwritable(file, "header")
    with pytest.raises(PermissionError):
        write_whole(file, b"text")


def test_long_names_have_room_for_what_is_written_beside_them(tmp_path: Path):
    write_whole(tmp_path / ("x" * 255), b"text")
    assert [each.name for each in tmp_path.iterdir()] == ["x" * 255]


def test_file_beyond_the_size_limit_is_an_error_and_leaves_the_old_one(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"old")
    code = (
        "import resource; from pathlib import Path; from tuner.files import write_whole\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: write_whole(Path('file'), b'x' * 9000)\n"
        "except OSError as error: print(error.errno)"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout == f"{errno.EFBIG}\n"
    assert (tmp_path / "file").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1
