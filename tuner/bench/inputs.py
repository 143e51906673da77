"""The data a problem is checked and timed on: inputs of its own, and a second, random set.

A set's inputs stay in a stock that kernels are not given. Before each launch they are placed, turned by a random number
of rows and columns, where the kernel reads them: the same buffers, other contents. The exact output for the stock is
turned likewise, and lies masked with a key. Stock and output are sealed with keyed sums.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.bench.bench import GUARD_BYTES, Bench, Deck, confirm_reference, drawn_key, elements_turn, hashed
from tuner.bench.protocol import BenchSpec
from tuner.devices import Buffer
from tuner.errors import StrayWrite, WrongResult
from tuner.kernels.template import ANY_MAGNITUDE, Magnitudes
from tuner.problems.accuracy import Precision, largest_unit, tolerance
from tuner.problems.problem import FLOAT_BYTES, Arrays, Tensor
from tuner.processes import stages

WIDEST_SCALE = 20  # x of the second set is scaled by up to 2^20 either way, where a template does not say less
FACTORS = (-20, -14), (-13, -1), (0, 9), (10, 20)  # exponents of what the second set's other factors are scaled by
LEAST, MOST = -4, 0  # exponents of the second set's magnitudes, zeros apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How a launch's contents differ from the stock.

    Attributes:
        rows: Row r of the launch is row ``r + rows`` of the stock.
        columns: Column c of the launch is column ``c + columns`` of the stock.
        scale: A power of two that the scaled input, and so the output, is multiplied by.
        factor: Another, of the input that the output is proportional to besides.
    """

    rows: int = 0
    columns: int = 0
    scale: float = 1.0
    factor: float = 1.0

    @property
    def of_output(self) -> float:
        """What the output is multiplied by."""
        return self.scale * self.factor

    def scale_of(self, tensor: Tensor) -> float:
        if tensor.output:
            return self.of_output
        return self.scale if tensor.scaled else self.factor if tensor.proportional else 1.0


AS_IN_STOCK = Turn()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """Where a tensor's elements are in the stock, as the kernels of ``bench.cu`` are told.

    Attributes:
        planes, size: How many planes are placed, and a plane's elements.
        per, groups: Planes of a group, and groups of the stock.
        groups_on, planes_on, elements_on: By how many each is turned.
    """

    planes: int
    size: int
    per: int
    groups: int
    groups_on: int = 0
    planes_on: int = 0
    elements_on: int = 0
    scale: float = 1.0

    def by_elements(self) -> Turned:
        """Return the same with whole groups as planes: a group's planes are neighbours, so its elements turn."""
        return Turned(
            planes=self.planes // self.per,
            size=self.per * self.size,
            per=1,
            groups=self.groups,
            groups_on=self.groups_on,
            elements_on=self.planes_on * self.size,
            scale=self.scale,
        )

    @property
    def extent(self) -> tuple[int, int]:
        return self.planes, self.size

    @property
    def arguments(self) -> tuple[np.generic, ...]:
        numbers = self.size, self.per, self.groups, self.groups_on, self.planes_on, self.elements_on
        return (np.uint64(self.planes), *(np.uint32(number) for number in numbers), np.float32(self.scale))


class Inputs:
    """A problem's inputs on a device, the exact output for them, and how far a kernel may stray from it.

    Args:
        bench: Its guarded buffers are where kernels find the inputs and leave the output; its problem is the stock's.
        stock: The inputs by name, on the device; this object's from now on.
        host: All but the scaled one, on the host.
        confirm: Compare the device's exact output with NumPy's.

    Attributes:
        unit: The largest error of a plain FP32 kernel on this stock.
        norm, largest: What the tolerance at any precision follows from, see :func:`tuner.problems.accuracy.tolerance`.
        tolerance: The largest that a kernel may make.

    Raises:
        DeviceError: The device's exact output is wrong.
    """

    def __init__(
        self, bench: Bench, stock: Mapping[str, Buffer], host: Arrays, precision: Precision, *, confirm: bool = False
    ) -> None:
        problem = bench.problem
        self.bench, self.problem, self.stock = bench, problem, dict(stock)
        output = problem.output
        self._expected = bench.allocated(output.size)
        self._mask, self._seal_key = drawn_key(), drawn_key()
        bench.exact_reference(problem, self.stock | {output.name: self._expected})
        bench.reference(problem, self.stock | {output.name: bench.y})
        error = bench.largest_difference(bench.y, self._expected, output.size)
        self.unit = largest_unit(error, bench.largest(self._expected, output.size))
        scaled = next(tensor for tensor in problem.inputs if tensor.scaled)
        self.norm, self.largest = problem.largest_norm(host), bench.largest(self.stock[scaled.name], scaled.size)
        self.tolerance = tolerance(problem, self.norm, self.largest, precision, unit=self.unit)
        self.digest = hashlib.sha256(b"".join(host[name].tobytes() for name in sorted(host))).hexdigest()
        if confirm:
            confirm_reference(bench, self.stock, self._expected, self.tolerance)
        bench.mask(self._expected, self._expected, output.size, self._mask)
        self._sealed = self._seals()
        self._elements_turn = elements_turn(problem)
        self._beyond, self._factors = Deck(0, 0, 0, 1), Deck(*range(len(FACTORS)))
        self.turn, self.placed, self._key = AS_IN_STOCK, problem, drawn_key()

    def drawn(self, magnitudes: Magnitudes | None = None) -> Turn:
        """Return a random turn; with ``magnitudes``, of a random scale that keeps the scaled input within them."""
        output = self.problem.output
        return Turn(
            rows=secrets.randbelow(self.problem.rows) if output.rows else 0,
            columns=0 if output.columns is None else secrets.randbelow(output.shape[output.columns]),
            scale=drawn_scale(magnitudes) if magnitudes else 1.0,
            factor=self._drawn_factor() if magnitudes == ANY_MAGNITUDE else 1.0,
        )

    def _drawn_factor(self) -> float:
        """Return a random power of two: of four that follow one another, one is very small and one very large."""
        least, most = FACTORS[self._factors.draw()]
        return float(2.0 ** (least + secrets.randbelow(most - least + 1)))

    def place(self, turn: Turn = AS_IN_STOCK, rows: int | None = None) -> None:
        """Put the inputs where kernels read them, and poison the output and what of the inputs lies beyond the rows."""
        bench = self.bench
        self.turn, self.placed = turn, self.problem if rows is None else self.problem.with_rows(rows)
        for tensor in self.placed.inputs:
            turned, to = self._turned(tensor), bench.guarded[tensor.name]
            bench.run_planes("place", *turned.extent, to.inner, self.stock[tensor.name], *turned.arguments)
            to.forced = self._beyond.draw()  # what drops NaN may take a number
            bench.fill_poison(to, to.begin + tensor.size, to.words, bench.guard_key)
        self.poison()

    def _turned(self, tensor: Tensor) -> Turned:
        """Return by which numbers the kernels of bench.cu find a tensor's turned elements in the stock."""
        turn, stock = self.turn, self.problem.tensor(tensor.name)
        scale = turn.scale_of(tensor)
        rows = turn.rows if tensor.rows else 0
        if tensor.columns is None:
            per = tensor.shape[1] if len(tensor.shape) > 2 else 1
            size = tensor.size // (tensor.shape[0] * per)
            return Turned(
                planes=tensor.shape[0] * per, size=size, per=per, groups=stock.shape[0], groups_on=rows, scale=scale
            )
        placed, groups = (math.prod(each.shape[: tensor.columns]) for each in (tensor, stock))
        per, size = tensor.shape[tensor.columns], math.prod(tensor.shape[tensor.columns + 1 :])
        turned = Turned(
            planes=placed * per, size=size, per=per, groups=groups, groups_on=rows, planes_on=turn.columns, scale=scale
        )
        return turned.by_elements() if self._elements_turn else turned

    def poison(self) -> None:
        """Fill the output and all around it with words that are not the right result, drawn anew."""
        bench, guarded, self._key = self.bench, self.bench.output, drawn_key()
        keys = np.uint32(self._mask), np.uint32(self._key)
        turned = self._turned(self.placed.output)
        places = bench.y, self._expected, *turned.arguments
        bench.run_planes("poison_y", *turned.extent, *places, self._allowed, *keys)
        bench.fill_poison(guarded, 0, guarded.begin, self._key)
        bench.fill_poison(guarded, guarded.begin + self.placed.output.size, guarded.words, self._key)

    @property
    def _allowed(self) -> np.float32:
        return np.float32(self.tolerance * self.turn.of_output)

    def verify(self) -> float:
        """Check all of the output, and that nothing else was written; return the largest error.

        Raises:
            WrongResult: Names the first wrong element, or what was written outside the output.
        """
        bench, output = self.bench, self.placed.output
        report = bench.clear_report()
        keys = np.uint32(self._mask), np.uint32(self._key)
        turned = self._turned(output)
        places = bench.y, self._expected, *turned.arguments
        bench.run_planes("compare", *turned.extent, *places, self._allowed, *keys, report)
        y = bench.output
        bench.check_poison(y, 0, y.begin, self._key, slot=4)
        bench.check_poison(y, y.begin + output.size, y.words, self._key, slot=7)
        for tensor in self.placed.inputs:
            guarded, turned = bench.guarded[tensor.name], self._turned(tensor)
            places = guarded.inner, self.stock[tensor.name], *turned.arguments
            bench.run_planes("check_placed", *turned.extent, *places, np.uint32(10), report)
            bench.check_poison(guarded, 0, guarded.begin, bench.guard_key, slot=12)
            bench.check_poison(guarded, guarded.begin + tensor.size, guarded.words, bench.guard_key, slot=12)
        words = bench.read_report()
        if words[0]:
            raise WrongResult(self._describe(words[:4]))
        self._refuse_strays(words)
        return float(np.uint32(words[2]).view(np.float32)) / self.turn.of_output

    def _describe(self, report: list[int]) -> str:
        wrong, first, bits, unwritten = report
        output = self.placed.output
        at = tuple(int(i) for i in np.unravel_index(first, output.shape))
        offset = GUARD_BYTES + FLOAT_BYTES * first
        got = float(self.bench.device.download(self.bench.output.whole, np.float32, 1, offset=offset)[0])
        wanted = self._wanted(at)
        largest = float(np.uint32(bits).view(np.float32))
        count = f"{wrong:,} of {output.size:,} elements are wrong"
        kind = f"{unwritten:,} of them NaN or never written" if unwritten else f"largest difference {largest:.3g}"
        axes, where = ", ".join(output.axes), ", ".join(map(str, at))
        return (
            f"{count}, {kind}; first at ({axes}) = ({where}): "
            f"got {got:.7g}, wanted {wanted:.7g}, difference {abs(got - wanted):.3g}; tolerance {self._allowed:.3g}"
        )

    def _wanted(self, at: tuple[int, ...]) -> float:
        """Return one element of the right output of what is placed."""
        output, turn, place = self.problem.output, self.turn, list(at)
        if output.rows:
            place[0] = (place[0] + turn.rows) % output.shape[0]
        if output.columns is not None:
            place[output.columns] = (place[output.columns] + turn.columns) % output.shape[output.columns]
        index = int(np.ravel_multi_index(place, output.shape))
        masked = self.bench.device.download(self._expected, np.uint32, 1, offset=FLOAT_BYTES * index)[0]
        return float(np.uint32(int(masked) ^ hashed(index, self._mask)).view(np.float32)) * turn.of_output

    def audit(self) -> None:
        """Look at the stock and the expected output, which no kernel is given.

        Raises:
            WrongResult: They are not what they were: nothing this process says can be trusted from now on.
        """
        if self._seals() != self._sealed:
            raise StrayWrite("it wrote where the check keeps its inputs and its reference, which are made anew")

    def _seals(self) -> list[int]:
        output = self.problem.output
        parts = [(self.stock[tensor.name], tensor.size) for tensor in self.problem.inputs]
        return self.bench.seals([*parts, (self._expected, output.size)], self._seal_key)

    def revealed(self) -> Buffer:
        """Return the exact output for the stock, in a new buffer."""
        plain = self.bench.allocated(self.problem.output.size)
        self.bench.mask(self._expected, plain, self.problem.output.size, self._mask)
        return plain

    def _refuse_strays(self, words: list[int]) -> None:
        """Raise StrayWrite if anything around the output, or of the inputs, was written."""
        y, guard = self.problem.output.name, self.bench.output.begin
        names = " or ".join(tensor.name for tensor in self.problem.inputs)
        if words[4]:
            raise StrayWrite(f"{words[4]} word(s) before {y} overwritten, the nearest {guard - words[6]} before it")
        if words[7]:
            raise StrayWrite(f"{words[7]} word(s) after {y} overwritten, the nearest {words[8] + 1} behind its end")
        if words[10]:
            raise StrayWrite(f"the kernel wrote to its inputs {names}")
        if words[12]:
            raise StrayWrite(f"{words[12]} word(s) around the inputs {names.replace(' or ', ' and ')} overwritten")


def drawn_scale(magnitudes: Magnitudes) -> float:
    """Return a random power of two by which the second set stays within ``magnitudes``."""
    least, most = magnitudes
    low = max(-WIDEST_SCALE, int(np.ceil(np.log2(least))) - LEAST)
    high = min(WIDEST_SCALE, int(np.floor(np.log2(most))) - MOST - 1)
    return float(2.0 ** (low + secrets.randbelow(max(1, high - low + 1))))


def _zeros(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return ones, and zeros of either sign in one of sixteen places."""
    drawn = generator.integers(32, size=shape)
    return np.where(drawn == 0, np.float32(0), np.where(drawn == 1, np.float32(-0.0), np.float32(1)))


def own_inputs(bench: Bench, spec: BenchSpec) -> Inputs:
    """Prepare the problem's own inputs, and confirm the reference against NumPy.

    Raises:
        UsageError: The data cannot be read.
        DeviceError: The device's reference is wrong.
    """
    problem = bench.problem
    stages.enter("inputs")
    stock = problem.stock(bench, spec.data)
    buffers = {name: bench.uploaded(array) for name, array in stock.host.items()} | dict(stock.device)
    factors = {tensor.name: stock.host[tensor.name] for tensor in problem.inputs if not tensor.scaled}
    stages.enter("the reference's output, and the same by NumPy")
    inputs = Inputs(bench, buffers, factors, spec.precision, confirm=True)
    inputs.digest = stock.digest
    return inputs


def random_inputs(bench: Bench, spec: BenchSpec) -> Inputs:
    """Prepare the second set, other numbers in each process: magnitudes 2^-4 to 1, other factors normal; zeros."""
    problem = bench.problem
    generator = np.random.default_rng(secrets.randbits(64))
    buffers: dict[str, Buffer] = {}
    factors = {}
    for tensor in problem.inputs:
        if tensor.scaled:
            buffers[tensor.name] = bench.allocated(tensor.size)
            numbers = np.uint64(tensor.size), np.uint32(drawn_key())
            bench.run("fill_magnitudes", tensor.size, buffers[tensor.name], *numbers)
        else:
            normal = generator.standard_normal(tensor.shape, dtype=np.float32)
            normal *= _zeros(generator, tensor.shape)
            factors[tensor.name] = normal / np.float32(np.sqrt(problem.terms))
            buffers[tensor.name] = bench.uploaded(factors[tensor.name])
    return Inputs(bench, buffers, factors, spec.precision)
