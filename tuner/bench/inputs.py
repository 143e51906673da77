"""The data a problem is checked and timed on: inputs of its own, and a second, random set.

A set's inputs stay in a stock that kernels are not given. Before each launch they are placed, turned by a random number
of rows and columns, where the kernel reads them: the same buffers, other contents. The exact output for the stock is
turned likewise, and lies masked with a key. Stock and output are sealed with keyed sums.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np

from tuner.bench.bench import Bench, confirm_reference
from tuner.bench.guards import HUGE_NUMBERS, NANS, NUMBERS, Deck, Fills, drawn_key, hashed
from tuner.bench.turns import AS_IN_STOCK, FACTORS, Turn, Turned, drawn_scale, elements_turn
from tuner.devices import Buffer
from tuner.errors import StrayWrite, WrongResult
from tuner.kernels.limits import ANY_MAGNITUDE, Magnitudes
from tuner.problems.accuracy import Precision, largest_unit, tolerance
from tuner.problems.problem import FLOAT_BYTES, Arrays, Tensor


class Inputs:
    """A problem's inputs on a device, the exact output for them, and how far a kernel may stray from it.

    Args:
        bench: Its guarded buffers are where kernels find the inputs and leave the output; its problem is the stock's.
        stock: The inputs by name, on the device; this object's from now on.
        host: All but the scaled one, on the host.
        confirm: Compare the device's exact output with NumPy's.

    Attributes:
        unit: The largest error of a plain FP32 kernel on this stock.
        digest: Of what the inputs came from, where that is known.
        norm, largest: What the tolerance at any precision follows from, see :func:`tuner.problems.accuracy.tolerance`.
        tolerance: The largest that a kernel may make.
        fill: What the output and its zones hold before the launch.

    Raises:
        DeviceError: The device's exact output is wrong.
    """

    def __init__(
        self, bench: Bench, stock: Mapping[str, Buffer], host: Arrays, precision: Precision, *, confirm: bool = False
    ) -> None:
        problem = bench.problem
        self.bench, self.problem, self.stock, self.precision = bench, problem, dict(stock), precision
        self._expected = bench.allocated(problem.output.size)
        self._elements_turn = elements_turn(problem)
        self._beyond, self._factors = Deck(NANS, NANS, HUGE_NUMBERS, NUMBERS), Deck(*range(len(FACTORS)))
        self._fills = Fills()
        self.fill = self._fills.draw()
        self.turn, self.placed, self._key = AS_IN_STOCK, problem, drawn_key()
        self.digest = ""
        self._settle(host, confirm=confirm)

    def _settle(self, host: Arrays, *, confirm: bool = False) -> None:
        """Compute what is expected of the stock, mask it, and seal both."""
        bench, problem, output = self.bench, self.problem, self.problem.output
        self._mask, self._seal_key = drawn_key(), drawn_key()
        bench.exact_reference(problem, self.stock | {output.name: self._expected})
        bench.reference(problem, self.stock | {output.name: bench.y})
        error = bench.largest_difference(bench.y, self._expected, output.size)
        self.unit = largest_unit(error, bench.largest(self._expected, output.size))
        scaled = next(tensor for tensor in problem.inputs if tensor.scaled)
        self.norm, self.largest = problem.largest_norm(host), bench.largest(self.stock[scaled.name], scaled.size)
        self.tolerance = tolerance(problem, self.norm, self.largest, self.precision, unit=self.unit)
        if confirm:
            confirm_reference(bench, self.stock, self._expected, self.tolerance)
        bench.mask(self._expected, self._expected, output.size, self._mask)
        self._sealed = self._seals()

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
            to.kind = self._beyond.draw()  # what drops NaN may take a number
            bench.fill_poison(to, 0, to.begin, bench.guard_key)
            bench.fill_poison(to, to.begin + tensor.size, to.words, bench.guard_key)
        self.poison()

    def _turned(self, tensor: Tensor) -> Turned:
        """Return by which numbers the kernels of bench.cu find a tensor's turned elements in the stock."""
        turned = self.turn.of(tensor, self.problem.tensor(tensor.name))
        return turned.by_elements() if self._elements_turn and tensor.columns is not None else turned

    def poison(self) -> None:
        """Fill the output and all around it with words that are not the right result, drawn anew."""
        bench, guarded, self._key = self.bench, self.bench.output, drawn_key()
        self.fill = self._fills.draw()
        guarded.kind = self.fill.around
        keys = np.uint32(self._mask), np.uint32(self._key), *self.fill.arguments
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
        keys = np.uint32(self._mask), np.uint32(self._key), *self.fill.arguments
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
        offset = FLOAT_BYTES * (self.bench.output.begin + first)
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
