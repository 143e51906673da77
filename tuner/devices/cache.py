"""Compiled binaries by content: the key covers all that could change them, so an edited source is always recompiled.

Entries are written to a temporary name and renamed, so that readers of any process see a complete entry or none; each
carries its own hash, so that a damaged one is dropped and recompiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tuner.files import write_whole
from tuner.folders import cache_folder
from tuner.results import Environment

LIMIT_BYTES = 1 << 30
HASH_BYTES = 32
SUFFIX = ".bin"


def binary_key(environment: Environment, source: str) -> str:
    """Return the hash of the source, the headers given to compilers, the compiler with its options, and the target."""
    parts = (environment.kind, environment.arch, environment.toolkit, _headers(), source)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _headers() -> str:
    folder = Path(__file__).parents[1] / "kernels" / "preludes"
    return "\0".join((folder / name).read_text(encoding="utf-8") for name in ("nvcc.h", "pocl.h"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """The use of the cache: entries and their total bytes."""

    folder: Path
    entries: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCache:
    """A folder of compiled binaries, shared by processes and bounded in size (least recently used go first)."""

    folder: Path
    limit_bytes: int = LIMIT_BYTES

    @classmethod
    def default(cls) -> CompileCache:
        return cls(folder=cache_folder() / "binaries")

    def get(self, key: str) -> bytes | None:
        """Return the binary, or None when it is not there or is damaged."""
        path = self._path(key)
        try:
            stored = path.read_bytes()
        except OSError:
            return None
        digest, binary = stored[:HASH_BYTES], stored[HASH_BYTES:]
        if hashlib.sha256(binary).digest() != digest:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return binary

    def put(self, key: str, binary: bytes) -> None:
        """Store a binary; a cache that cannot be written (full disk, read-only folder) is not an error, only slower."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, hashlib.sha256(binary).digest() + binary)

    def get_or_make(self, environment: Environment, source: str, make: Callable[[], bytes]) -> bytes:
        """Return the stored binary of ``source``, or compile and store it."""
        key = binary_key(environment, source)
        binary = self.get(key)
        if binary is None:
            binary = make()
            self.put(key, binary)
        return binary

    def use(self) -> CacheUse:
        sizes = [size for _, size, _ in self._entries()]
        return CacheUse(folder=self.folder, entries=len(sizes), nbytes=sum(sizes))

    def trim(self, limit_bytes: int | None = None) -> int:
        """Drop the least recently used entries beyond the limit; return how many were deleted."""
        entries = sorted(self._entries())
        excess = sum(size for _, size, _ in entries) - (self.limit_bytes if limit_bytes is None else limit_bytes)
        dropped = 0
        for _, size, path in entries:
            if excess <= 0:
                break
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            excess -= size
            dropped += 1
        return dropped

    def _entries(self) -> list[tuple[float, int, Path]]:
        found = []
        with contextlib.suppress(OSError):  # a folder without read permission counts as empty
            for path in self.folder.glob(f"*/*{SUFFIX}"):
                with contextlib.suppress(OSError):
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path))
        return found

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{SUFFIX}"
