"""The images: Fashion-MNIST's test split, shipped with the package, or IDX files of the user's own."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UsageError

Bytes = NDArray[np.uint8]
F32 = NDArray[np.float32]

PACKAGED = Path(__file__).parent / "data"
IMAGES = "images-idx3-ubyte"
LABELS = "labels-idx1-ubyte"
SHA256 = {
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Images with their classes.

    Shapes:
        images ``(N, H, W)``, labels ``(N,)``, both uint8.

    Attributes:
        digest: SHA-256 of the decoded content, the same whether the files were gzipped or not.
    """

    images: Bytes
    labels: Bytes
    digest: str

    def __len__(self) -> int:
        return len(self.images)


def load_test_split(directory: Path | None = None) -> Dataset:
    """Load the packaged test split, or the ``t10k`` files of a directory.

    Raises:
        UsageError: A file is missing, unreadable, damaged, or does not fit its partner; names the path and remedy.
    """
    if directory is not None:
        return load_split(directory, "t10k")
    for name, expected in SHA256.items():
        _check_sha256(PACKAGED / name, expected)
    return load_split(PACKAGED, "t10k")


def load_split(directory: Path, prefix: str) -> Dataset:
    """Load ``PREFIX-images-idx3-ubyte[.gz]`` and ``PREFIX-labels-idx1-ubyte[.gz]`` of a directory.

    Raises:
        UsageError: As :func:`load_test_split`.
    """
    images_path = _find(directory, f"{prefix}-{IMAGES}")
    labels_path = _find(directory, f"{prefix}-{LABELS}")
    images, labels = read_idx(images_path, dimensions=3), read_idx(labels_path, dimensions=1)
    if len(images) != len(labels):
        raise UsageError(
            f"{labels_path}: {len(labels)} labels for the {len(images)} images of {images_path.name}; "
            "give two files of one split"
        )
    content = hashlib.sha256(repr(images.shape).encode())
    content.update(images.tobytes())
    content.update(labels.tobytes())
    return Dataset(images=images, labels=labels, digest=content.hexdigest())


def read_idx(path: Path, dimensions: int = 3) -> Bytes:
    """Read an IDX file of unsigned bytes, gzipped if its name ends in ``.gz``.

    Args:
        path: The file.
        dimensions: 3 for images, 1 for labels.

    Raises:
        UsageError: The file cannot be read, or is not the IDX file its header promises.

    Source:
        Y. LeCun, C. Cortes, C. Burges: The MNIST database, "the IDX file format".
    """
    raw = _gunzip(path, _read(path)) if path.suffix == ".gz" else _read(path)
    if not raw:
        raise UsageError(f"{path}: the file is empty; give an IDX file of unsigned bytes")
    magic = (0x0800 + dimensions).to_bytes(4, "big")
    if raw[:4] != magic:
        raise UsageError(
            f"{path}: magic {raw[:4].hex()}, expected {magic.hex()} ({dimensions}-dimensional unsigned bytes); "
            "give an IDX file, named .gz if it is gzipped"
        )
    header = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(raw[at : at + 4], "big") for at in range(4, header, 4))
    count = math.prod(shape)
    if count == 0 or len(raw) != header + count:
        raise UsageError(
            f"{path}: {len(raw)} bytes, expected {header + count} for a header of {shape}; "
            "give a whole file that is not empty"
        )
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def resize_bilinear(images: Bytes, H: int, W: int) -> F32:
    """Resize images bilinearly and scale them to [0, 1].

    Pixel centres lie at half-integers, and no low-pass filter is applied when shrinking.

    Shapes:
        images ``(..., h, w)`` uint8, result ``(..., H, W)`` float32.

    Source:
        ``torch.nn.functional.interpolate(mode="bilinear", align_corners=False)``, OpenCV's ``INTER_LINEAR``.
    """
    rows, columns = _interpolation(images.shape[-2], H), _interpolation(images.shape[-1], W)
    scaled = images.astype(np.float32) / np.float32(255)
    wide = (scaled.reshape(-1, scaled.shape[-1]) @ columns.T).reshape(*scaled.shape[:-1], W)
    resized: F32 = np.matmul(rows, wide)
    return resized


def _interpolation(source: int, target: int) -> F32:
    """Build the ``(target, source)`` matrix whose rows hold a pixel's two weights."""
    centre = np.maximum((np.arange(target) + 0.5) * (source / target) - 0.5, 0.0)
    left = np.floor(centre).astype(int)
    right = np.minimum(left + 1, source - 1)
    weight = centre - left
    matrix = np.zeros((target, source), np.float32)
    np.add.at(matrix, (np.arange(target), left), 1 - weight)
    np.add.at(matrix, (np.arange(target), right), weight)
    return matrix


def _find(directory: Path, name: str) -> Path:
    """Find NAME.gz or NAME by opening it: `exists` would hide why it cannot be read."""
    for path in (directory / f"{name}.gz", directory / name):
        try:
            path.open("rb").close()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}; give a readable file") from None
        return path
    reason = f"neither {name} nor {name}.gz is there" if directory.is_dir() else "no such directory"
    raise UsageError(f"data {directory}: {reason}; give a directory with Fashion-MNIST's IDX files")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give a readable file") from None


def _gunzip(path: Path, raw: bytes) -> bytes:
    try:
        return gzip.decompress(raw)
    except EOFError:
        raise UsageError(f"{path}: the gzip stream ends early, after {len(raw)} bytes; fetch the file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"{path}: not a gzip file, or damaged ({error}); fetch it again") from None


def _check_sha256(path: Path, expected: str) -> None:
    found = hashlib.sha256(_read(path)).hexdigest()
    if found != expected:
        raise UsageError(f"{path}: SHA-256 is {found}, expected {expected}; reinstall tuner, or give --data DIR")
