"""Matrix multiplication: ``c[i][j] = sum over k of a[i][k] * b[k][j]``, float32, row-major."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UsageError
from tuner.problems.problem import CPU_SECONDS, Arrays, LibraryCall, Problem, Tensor
from tuner.problems.stock import DeviceArrays, Stock

SEED = 1969  # of the inputs that a kernel is tuned on: Strassen's year
CPU_PLAIN_FLOPS = 2e9  # what the plain kernel reaches on two cores
FULL_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm(Problem):
    """One product of two matrices.

    Shapes:
        a is ``(M, K)``, b is ``(K, N)``, c is ``(M, N)``.

    Raises:
        UsageError: A size is not positive; the message names it.
    """

    kind: ClassVar[str] = "gemm"
    noun: ClassVar[str] = "gemm"
    SIZES: ClassVar[tuple[str, ...]] = ("M", "N", "K")
    ROWS: ClassVar[str] = "M"
    ROWS_NOUN: ClassVar[str] = "rows"
    ROWS_OPTION: ClassVar[str] = "M"
    MACRO: ClassVar[str] = "SIZE"
    ENTRY: ClassVar[str] = "gemm"
    ARGUMENTS: ClassVar[str] = "const float *a, const float *b, float *c, int M, int N, int K"
    REFERENCE: ClassVar[str] = "gemm.cu"
    RIVALS: ClassVar[tuple[str, ...]] = ("naive",)
    LIBRARY: ClassVar[LibraryCall | None] = LibraryCall(
        function="matmul", library="cuBLAS", layouts=("row-major",), tf32="cuda.matmul"
    )

    name: str
    M: int = FULL_ROWS
    N: int
    K: int

    def __post_init__(self) -> None:
        for size in self.SIZES:
            if getattr(self, size) < 1:
                raise UsageError(f"gemm {self.name}: {size}={getattr(self, size)} is below 1; give a positive number")

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        a = Tensor(name="a", shape=(self.M, self.K), axes=("i", "k"), dims=("M", "K"), rows=True, scaled=True)
        b = Tensor(name="b", shape=(self.K, self.N), axes=("k", "j"), dims=("K", "N"), columns=1, proportional=True)
        c = Tensor(
            name="c", shape=(self.M, self.N), axes=("i", "j"), dims=("M", "N"), rows=True, columns=1, output=True
        )
        return a, b, c

    @property
    def terms(self) -> int:
        return self.K

    def expected(self, arrays: Arrays) -> NDArray[np.float64]:
        return arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64)

    def largest_norm(self, arrays: Arrays) -> float:
        return float(np.linalg.norm(arrays["b"].astype(np.float64), axis=0).max())

    def stock(self, arrays: DeviceArrays, data: Path | None) -> Stock:
        """Return normal numbers; b's are scaled so that c's are of the same size as a's."""
        if data is not None:
            raise UsageError(f"--data {data}: a gemm has no data set; leave it out")
        generator = np.random.default_rng(SEED)
        a = generator.standard_normal((self.M, self.K), dtype=np.float32)
        b = generator.standard_normal((self.K, self.N), dtype=np.float32) / np.float32(np.sqrt(self.K))
        digest = hashlib.sha256(repr((SEED, self.M, self.N, self.K)).encode()).hexdigest()
        return Stock(host={"a": a, "b": b}, digest=digest)

    def describe(self) -> str:
        return f"M={self.M} N={self.N} K={self.K}"

    def default_rows(self, device: str) -> int:
        """Return M: 4,096 on a GPU; on the CPU the power of two whose plain product stays near 50 ms."""
        if device != "cpu":
            return FULL_ROWS
        rows = CPU_SECONDS * CPU_PLAIN_FLOPS / self.with_rows(1).flop
        return int(max(16, min(FULL_ROWS, 2 ** int(np.log2(max(rows, 1))))))
