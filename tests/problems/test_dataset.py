"""The data set: packaged and checked, read from a directory, and every way a file can be wrong."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from tuner.errors import UsageError
from tuner.problems.conv import dataset as module
from tuner.problems.conv.dataset import load_split, load_test_split, read_idx, resize_bilinear

IMAGES = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
LABELS = np.array([7, 0, 9], np.uint8)
IMAGES_NAME, LABELS_NAME = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.tobytes()


def packed(raw: bytes) -> bytes:
    """Compress without the time of day: the bytes name their tests, in each process alike."""
    return gzip.compress(raw, mtime=0)


def write(directory: Path, images: bytes = idx(IMAGES), labels: bytes = idx(LABELS), suffix: str = "") -> Path:
    pack = packed if suffix else bytes
    (directory / f"{IMAGES_NAME}{suffix}").write_bytes(pack(images))
    (directory / f"{LABELS_NAME}{suffix}").write_bytes(pack(labels))
    return directory


def message(directory: Path | None) -> str:
    with pytest.raises(UsageError) as caught:
        load_test_split(directory)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_packaged_split_is_the_whole_test_set() -> None:
    data = load_test_split()
    assert data.images.shape == (10_000, 28, 28)
    assert np.bincount(data.labels).tolist() == [1_000] * 10
    assert data.digest == load_split(module.PACKAGED, "t10k").digest


def test_packaged_file_is_refused_when_one_bit_is_flipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in module.SHA256:
        (tmp_path / name).write_bytes((module.PACKAGED / name).read_bytes())
    damaged = tmp_path / f"{LABELS_NAME}.gz"
    raw = bytearray(damaged.read_bytes())
    raw[-9] ^= 1
    damaged.write_bytes(raw)
    monkeypatch.setattr(module, "PACKAGED", tmp_path)
    text = message(None)
    assert str(damaged) in text
    assert module.SHA256[damaged.name] in text
    assert "reinstall" in text


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_directory_is_read_when_plain_or_gzipped(tmp_path: Path, suffix: str) -> None:
    data = load_test_split(write(tmp_path, suffix=suffix))
    assert np.array_equal(data.images, IMAGES)
    assert np.array_equal(data.labels, LABELS)


def test_digest_is_the_same_when_plain_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain, zipped = (load_test_split(write(tmp_path / at, suffix=s)) for at, s in (("a", ""), ("b", ".gz")))
    assert plain.digest == zipped.digest


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (b"", idx(LABELS), "the file is empty"),
        (b"\x00\x00", idx(LABELS), "magic 0000, expected 00000803"),
        (b"\x00\x00\x08\x03\x00", idx(LABELS), "bytes, expected"),
        (idx(LABELS), idx(LABELS), "magic 00000801, expected 00000803"),
        (packed(idx(IMAGES)), idx(LABELS), "named .gz if it is gzipped"),
        (idx(IMAGES)[:-1], idx(LABELS), "75 bytes, expected 76 for a header of (3, 4, 5)"),
        (idx(IMAGES) + b"x", idx(LABELS), "77 bytes, expected 76"),
        (idx(IMAGES[:0]), idx(LABELS[:0]), "not empty"),
        (idx(IMAGES), idx(IMAGES), "magic 00000803, expected 00000801"),
        (idx(IMAGES), idx(LABELS[:2]), "2 labels for the 3 images"),
    ],
)
def test_plain_file_is_refused_when_damaged(tmp_path: Path, images: bytes, labels: bytes, words: str) -> None:
    text = message(write(tmp_path, images, labels))
    assert words in text
    assert str(tmp_path) in text


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (packed(idx(IMAGES))[:-12], "ends early"),
        (packed(idx(IMAGES))[:5], "ends early"),
        (idx(IMAGES), "not a gzip file"),
        (packed(idx(IMAGES))[:-8] + bytes(8), "damaged"),
        (packed(idx(IMAGES))[:10] + b"\xff" * 40, "damaged"),
        (b"", "the file is empty"),
    ],
)
def test_gzipped_file_is_refused_when_damaged(tmp_path: Path, raw: bytes, words: str) -> None:
    write(tmp_path, suffix=".gz")
    (tmp_path / f"{IMAGES_NAME}.gz").write_bytes(raw)
    text = message(tmp_path)
    assert words in text
    assert IMAGES_NAME in text


def test_directory_is_named_when_missing_or_without_the_files(tmp_path: Path) -> None:
    assert "no such directory" in message(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    assert "no such directory" in message(tmp_path / "file")
    assert f"neither {IMAGES_NAME} nor {IMAGES_NAME}.gz is there" in message(tmp_path)
    (tmp_path / IMAGES_NAME).write_bytes(idx(IMAGES))
    assert LABELS_NAME in message(tmp_path)


def test_file_is_named_when_it_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / IMAGES_NAME).mkdir()
    assert f"{IMAGES_NAME}: Is a directory" in message(tmp_path)
    with pytest.raises(UsageError, match="Is a directory"):
        read_idx(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
def test_file_is_named_when_permission_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    if os.geteuid() == 0:  # root may read everything: only the system call's answer can be had

        def denied(self: Path, mode: str) -> None:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "open", denied)
    else:
        (tmp_path / IMAGES_NAME).chmod(0)
    assert f"{IMAGES_NAME}" in (text := message(tmp_path))
    assert "Permission denied" in text


def test_resize_is_exact_when_the_size_stays() -> None:
    assert np.array_equal(resize_bilinear(IMAGES, 4, 5), IMAGES.astype(np.float32) / np.float32(255))


def test_resize_matches_half_pixel_centres_when_doubled() -> None:
    row = np.array([[[0, 100, 200]]], np.uint8)
    doubled = resize_bilinear(row, 1, 6) * 255
    assert doubled[0, 0] == pytest.approx([0, 25, 75, 125, 175, 200])


@pytest.mark.parametrize(("H", "W"), [(9, 11), (2, 3), (1, 1), (64, 7)])
def test_resize_matches_a_pixel_loop_when_growing_or_shrinking(H: int, W: int) -> None:
    resized = resize_bilinear(IMAGES, H, W)
    assert resized.dtype == np.float32
    assert resized.shape == (3, H, W)
    assert resized == pytest.approx(pixel_loop(IMAGES, H, W), abs=1e-6)


def pixel_loop(images: np.ndarray, H: int, W: int) -> np.ndarray:
    """Interpolate pixel by pixel, as OpenCV's manual defines INTER_LINEAR."""
    _, h, w = images.shape
    out = np.zeros((len(images), H, W))
    for i, j in np.ndindex(H, W):
        y, x = max((i + 0.5) * h / H - 0.5, 0), max((j + 0.5) * w / W - 0.5, 0)
        t, u = int(y), int(x)
        b, r = min(t + 1, h - 1), min(u + 1, w - 1)
        top = (1 - x + u) * images[:, t, u] + (x - u) * images[:, t, r]
        bottom = (1 - x + u) * images[:, b, u] + (x - u) * images[:, b, r]
        out[:, i, j] = ((1 - y + t) * top + (y - t) * bottom) / 255
    return out
