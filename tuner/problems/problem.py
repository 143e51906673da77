"""The seam between what is computed and everything else: one frozen object that says all a tuner needs to know.

Each kind of problem is a frozen dataclass of :class:`Problem`: its fields are a name and whole sizes. The bench, the
search, the store and the header know a problem only by what is declared here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tuner.problems.stock import DeviceArrays, Stock
    from tuner.problems.whole import Agreement, Outputs

FLOAT_BYTES = 4
INT_MAX = 2**31 - 1
HERE = Path(__file__).parent
CPU_SECONDS = 0.05  # of a launch of the plain kernel on the CPU, by which the default sizes there are chosen

Arrays = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An array argument of the kernel: float32, row-major.

    Attributes:
        name: The kernel's argument.
        axes: A letter for each dimension, as messages name an element: ``("b", "m", "h", "w")``.
        dims: Its dimensions by the names of sizes, or of what follows from them: ``("B", "M", "H_out", "W_out")``.
        output: The kernel writes all of it; the others are only read.
        rows: Whether the first dimension is the problem's rows, the size that may differ from launch to launch.
        columns: The dimension along which it may be rotated together with the output's; None if there is none.
        scaled: The output is proportional to it, so that it may be multiplied by powers of two.
        proportional: The output is proportional to it as well; of at most one input that is not scaled.
        constant: A kernel may keep it in constant memory, as the array ``NAME_constant``.
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    dims: tuple[str, ...]
    output: bool = False
    rows: bool = False
    columns: int | None = None
    scaled: bool = False
    proportional: bool = False
    constant: bool = False

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return FLOAT_BYTES * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCall:
    """How PyTorch computes a problem: one function of its inputs, in their order.

    Attributes:
        function: Its name in ``torch``: ``matmul``, ``nn.functional.conv2d``.
        library: What it calls on an NVIDIA GPU.
        layouts: Orders in which it takes the inputs; the first is ours.
        tf32: The switch in ``torch.backends`` by which it may round factors to TF32.
    """

    function: str
    library: str
    layouts: tuple[str, ...]
    tf32: str


class Problem(ABC):
    """What is computed, its sizes included; hashable and picklable.

    Class attributes:
        kind: The name of the kind: ``conv``, ``gemm``.
        noun: What a person calls one: ``layer``.
        SIZES: Names of its sizes, in the order in which every kernel takes them after its arrays, as ``int``.
        ROWS: The first size, which stays a run-time argument, so that one compiled kernel serves any number of rows.
        ROWS_NOUN: What rows are to a person: ``images``.
        ROWS_OPTION: What a person gives to have fewer of them.
        MACRO: Kernels are told the other sizes as macros of this prefix: ``LAYER_C``.
        ENTRY: The kernel's name in a template.
        ARGUMENTS: The kernel's arguments in order, as C declares them.
        LIBRARY: How PyTorch computes it, for a comparison; None if it does not.
        RIVALS: Named baselines of the built-in templates that a comparison shows beside the winner.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]
    SIZES: ClassVar[tuple[str, ...]]
    ROWS: ClassVar[str]
    ROWS_NOUN: ClassVar[str]
    ROWS_OPTION: ClassVar[str]
    MACRO: ClassVar[str]
    ENTRY: ClassVar[str]
    ARGUMENTS: ClassVar[str]
    REFERENCE: ClassVar[str]  # file beside this one with the plain kernel
    LIBRARY: ClassVar[LibraryCall | None] = None
    RIVALS: ClassVar[tuple[str, ...]] = ()

    name: str

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """The kernel's arrays in launch order; exactly one is the output."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """Products summed for one output element."""

    @abstractmethod
    def expected(self, arrays: Arrays) -> NDArray[np.float64]:
        """Compute the output in float64 on the CPU, from arrays of this problem's shapes."""

    @abstractmethod
    def largest_norm(self, arrays: Arrays) -> float:
        """Return the largest 2-norm of the factors, other than the scaled tensor's, that one output element sums over.

        Args:
            arrays: All inputs but the scaled one.
        """

    @abstractmethod
    def stock(self, arrays: DeviceArrays, data: Path | None) -> Stock:
        """Return the inputs that the kernel is tuned on.

        Args:
            arrays: Makes arrays on the device.
            data: A folder or file with real data, for kinds that have some.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return the sizes in a line."""

    @abstractmethod
    def default_rows(self, device: str) -> int:
        """Return how many rows a study on ``device`` has, if nobody says."""

    @classmethod
    def described(cls, name: str, text: str) -> Self | None:
        """Return the problem that :meth:`describe` wrote down, or None for another text."""
        sizes = dict(part.partition("=")[::2] for part in text.split(" "))
        if tuple(sizes) != cls.SIZES or not all(number.isdecimal() for number in sizes.values()):
            return None
        numbers: dict[str, Any] = {size: int(number) for size, number in sizes.items()}
        return cls(name=name, **numbers)  # type: ignore[call-arg]

    @property
    def has_whole(self) -> bool:
        """Whether it is a part of something that can be judged with a kernel's output, as a layer is of a network."""
        return False

    def agreement(self, outputs: Outputs, data: Path | None) -> Agreement:
        """Return what the whole makes of a configuration's output and of the reference's; asked where there is one."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What an exported header says that its kernel computes."""
        return self.name

    @property
    def named_numbers(self) -> dict[str, int]:
        """All sizes but the rows, and what follows from them and is a dimension of a tensor."""
        names = [size for size in self.SIZES if size != self.ROWS]
        names += [dim for tensor in self.tensors for dim in tensor.dims if dim not in self.SIZES]
        return {name: getattr(self, name) for name in dict.fromkeys(names)}

    def words(self) -> tuple[str, str]:
        """Return the words of a command line that mean this problem, and its rows if these have an option."""
        return (
            f"--problem {self.kind} --sizes {','.join(f'{size}={number}' for size, number in self.sizes.items())}",
            "",
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Its sizes by name, in the kernels' order."""
        return {size: getattr(self, size) for size in self.SIZES}

    @property
    def rows(self) -> int:
        return int(getattr(self, self.ROWS))

    def with_rows(self, rows: int) -> Self:
        """Return the same problem with another number of rows."""
        changed: dict[str, Any] = {self.ROWS: rows}
        return replace(self, **changed)  # type: ignore[type-var]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if not tensor.output)

    @property
    def output(self) -> Tensor:
        return next(tensor for tensor in self.tensors if tensor.output)

    def tensor(self, name: str) -> Tensor:
        return next(tensor for tensor in self.tensors if tensor.name == name)

    @property
    def most_rows(self) -> int:
        """The most rows with which an ``int`` can index the tensors that grow with them; 0 if not even one can be."""
        return INT_MAX // max(tensor.size // self.rows for tensor in self.tensors if tensor.rows)

    @property
    def flop(self) -> int:
        """Floating-point operations, a multiply-add counted as two."""
        return 2 * self.output.size * self.terms

    @property
    def least_bytes(self) -> int:
        """Fewest bytes through device memory: each tensor once."""
        return sum(tensor.nbytes for tensor in self.tensors)

    @property
    def moving_bytes(self) -> int:
        """Bytes of the tensors that grow with the rows: no kernel moves fewer, however it caches the others."""
        return sum(tensor.nbytes for tensor in self.tensors if tensor.rows)

    def floor_seconds(self, bytes_per_second: float, flop_per_second: float) -> float:
        """The roofline's bound: no kernel on this device is faster than this many seconds."""
        return max(self.least_bytes / bytes_per_second, self.flop / flop_per_second)

    @property
    def reference(self) -> str:
        """The plain kernel's text, see ``bench.cu``: named REFERENCE, with the sum's steps as macros."""
        return (HERE / self.REFERENCE).read_text(encoding="utf-8")


def is_naive(baseline: str) -> bool:
    """Whether a named baseline is the one that speed-ups are told against: its name begins with this word."""
    return baseline.partition(" ")[0] == "naive"
