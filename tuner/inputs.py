"""The data a layer is checked and timed on: what its trained network feeds it, and a second, random set.

A set's x and w stay in a stock that kernels are not given. Before each launch they are placed, turned by a random
number of images and output channels, where the kernel reads them: the same buffers, other contents. The exact result
of the stock is turned likewise, and lies masked with a key. Stock and result are sealed with keyed sums.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, replace

import numpy as np

from tuner import stages
from tuner.bench import GUARD_BYTES, Bench, confirm_reference, drawn_key, hashed
from tuner.dataset import load_test_split
from tuner.devices import Array, Buffer
from tuner.errors import StrayWrite, WrongResult
from tuner.layers import FLOAT_BYTES, ConvLayer
from tuner.networks import layer_input, layer_weights, stage_before
from tuner.protocol import BenchSpec
from tuner.reference import Precision, largest_unit, tolerance
from tuner.templates import Magnitudes

WIDEST_SCALE = 20  # x of the second set is scaled by up to 2^20 either way, where a template does not say less
LEAST, MOST = -4, 0  # exponents of the second set's magnitudes, zeros apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How a launch's contents differ from the stock.

    Attributes:
        images: Image b of the launch is image ``b + images`` of the stock.
        filters: Output channel m of the launch is channel ``m + filters`` of the stock.
        scale: A power of two that x, and so y, is multiplied by.
    """

    images: int = 0
    filters: int = 0
    scale: float = 1.0


AS_IN_STOCK = Turn()


class Inputs:
    """x and w on a device, the exact output for them, and how far a kernel may stray from it.

    Args:
        bench: Its guarded buffers are where kernels find x and w and leave y; its layer's batch is the stock's.
        x: The stock, on the device; this object's from now on.
        w: The stock's filters.
        confirm: Compare the device's exact output with NumPy's.

    Attributes:
        unit: The largest error of a plain FP32 kernel on this stock.
        tolerance: The largest that a kernel may make.

    Raises:
        DeviceError: The device's exact output is wrong.
    """

    def __init__(self, bench: Bench, x: Buffer, w: Array, precision: Precision, *, confirm: bool = False) -> None:
        layer = bench.layer
        self.bench, self.layer = bench, layer
        self.stock_x, self.stock_w = x, uploaded(bench, w)
        self._expected = bench.device.allocate(FLOAT_BYTES * layer.y_size)
        self._mask, self._seal_key = drawn_key(), drawn_key()
        bench.convolve_exactly(x, self.stock_w, self._expected, layer)
        bench.convolve(x, self.stock_w, bench.y, layer)
        error = bench.largest_difference(bench.y, self._expected, layer.y_size)
        self.unit = largest_unit(error, bench.largest(self._expected, layer.y_size))
        self.tolerance = tolerance(layer, w, bench.largest(x, count_of(layer)), precision, unit=self.unit)
        self.digest = hashlib.sha256(w.tobytes()).hexdigest()
        if confirm:
            confirm_reference(bench, x, w, self._expected, self.tolerance)
        bench.mask(self._expected, self._expected, layer.y_size, self._mask)
        self._sealed = self._seals()
        self.turn, self.placed, self._key = AS_IN_STOCK, layer, drawn_key()

    def drawn(self, magnitudes: Magnitudes | None = None) -> Turn:
        """Return a random turn; with ``magnitudes``, of a random scale that keeps |x| within them."""
        return Turn(
            images=secrets.randbelow(self.layer.B),
            filters=secrets.randbelow(self.layer.M),
            scale=drawn_scale(magnitudes) if magnitudes else 1.0,
        )

    def place(self, turn: Turn = AS_IN_STOCK, batch: int | None = None) -> None:
        """Put x and w where kernels read them, and poison y and what of x lies beyond the batch."""
        bench = self.bench
        self.turn, self.placed = turn, self.layer if batch is None else self.layer.with_batch(batch)
        for name, to, stock, arguments in self._places():
            planes, size = int(arguments[0]), int(arguments[1])
            bench.run_planes(name, planes, size, to, stock, *arguments)
        words = bench.guarded_x
        bench.fill_poison(words, words.begin + count_of(self.placed), words.words, bench.guard_key)
        self.poison()

    def _places(self) -> tuple[tuple[str, Buffer, Buffer, tuple[np.generic, ...]], ...]:
        """Return the kernel, the target, the stock and the arguments that place x and w."""
        layer, turn, bench = self.placed, self.turn, self.bench
        of_x, of_w = replace(turn, filters=0), replace(turn, images=0, scale=1.0)
        x = _turned(layer.B * layer.C, layer.H * layer.W, (layer.C, self.layer.B), of_x)
        w = _turned(layer.M, layer.reduction, (layer.M, 1), of_w)
        return ("place", bench.x, self.stock_x, x), ("place", bench.w, self.stock_w, w)

    def poison(self) -> None:
        """Fill y and all around it with words that are not the right result, drawn anew."""
        bench, guarded, self._key = self.bench, self.bench.guarded_y, drawn_key()
        keys = np.uint32(self._mask), np.uint32(self._key)
        bench.run_planes("poison_y", *self._planes, bench.y, self._expected, *self._turned_y, self._allowed, *keys)
        bench.fill_poison(guarded, 0, guarded.begin, self._key)
        bench.fill_poison(guarded, guarded.begin + self.placed.y_size, guarded.words, self._key)

    @property
    def _planes(self) -> tuple[int, int]:
        return self.placed.B * self.placed.M, self.placed.H_out * self.placed.W_out

    @property
    def _turned_y(self) -> tuple[np.generic, ...]:
        return _turned(*self._planes, (self.layer.M, self.layer.B), self.turn)

    @property
    def _allowed(self) -> np.float32:
        return np.float32(self.tolerance * self.turn.scale)

    def verify(self) -> float:
        """Check all of y, and that nothing else was written; return the largest error.

        Raises:
            WrongResult: Names the first wrong (b, m, h, w), or what was written outside y.
        """
        bench, layer = self.bench, self.placed
        report = bench.clear_report()
        keys = np.uint32(self._mask), np.uint32(self._key)
        arguments = (*self._turned_y, self._allowed, *keys, report)
        bench.run_planes("compare", *self._planes, bench.y, self._expected, *arguments)
        y, begin, end = bench.guarded_y, bench.guarded_y.begin, bench.guarded_y.begin + layer.y_size
        bench.check_poison(y, 0, begin, self._key, slot=4)
        bench.check_poison(y, end, y.words, self._key, slot=7)
        for slot, (_, to, stock, arguments) in enumerate(self._places(), start=10):
            size = int(arguments[0]), int(arguments[1])
            bench.run_planes("check_placed", *size, to, stock, *arguments, np.uint32(slot), report)
        for guarded, count in ((bench.guarded_x, count_of(layer)), (bench.guarded_w, layer.M * layer.reduction)):
            bench.check_poison(guarded, 0, guarded.begin, bench.guard_key, slot=12)
            bench.check_poison(guarded, guarded.begin + count, guarded.words, bench.guard_key, slot=12)
        words = bench.read_report()
        if words[0]:
            raise WrongResult(self._describe(words[:4]))
        _refuse_strays(words, begin)
        return float(np.uint32(words[2]).view(np.float32)) / self.turn.scale

    def _describe(self, report: list[int]) -> str:
        wrong, first, bits, unwritten = report
        b, m, h, w = (int(i) for i in np.unravel_index(first, self.placed.y_shape))
        device, at = self.bench.device, GUARD_BYTES + FLOAT_BYTES * first
        got = float(device.download(self.bench.guarded_y.whole, np.float32, 1, offset=at)[0])
        wanted = self._wanted(b, m, h, w)
        largest = float(np.uint32(bits).view(np.float32))
        count = f"{wrong:,} of {self.placed.y_size:,} elements are wrong"
        kind = f"{unwritten:,} of them NaN or never written" if unwritten else f"largest difference {largest:.3g}"
        return (
            f"{count}, {kind}; first at (b, m, h, w) = ({b}, {m}, {h}, {w}): "
            f"got {got:.7g}, wanted {wanted:.7g}, difference {abs(got - wanted):.3g}; tolerance {self._allowed:.3g}"
        )

    def _wanted(self, b: int, m: int, h: int, w: int) -> float:
        """Return one element of the right output of what is placed."""
        layer, turn = self.layer, self.turn
        index = np.ravel_multi_index(((b + turn.images) % layer.B, (m + turn.filters) % layer.M, h, w), layer.y_shape)
        masked = self.bench.device.download(self._expected, np.uint32, 1, offset=FLOAT_BYTES * int(index))[0]
        return float(np.uint32(int(masked) ^ hashed(int(index), self._mask)).view(np.float32)) * turn.scale

    def audit(self) -> None:
        """Look at the stock and the expected output, which no kernel is given.

        Raises:
            WrongResult: They are not what they were: nothing this process says can be trusted from now on.
        """
        if self._seals() != self._sealed:
            raise StrayWrite("it wrote where the check keeps its inputs and its reference, which are made anew")

    def _seals(self) -> list[int]:
        layer = self.layer
        parts = (
            (self.stock_x, count_of(layer)),
            (self.stock_w, layer.M * layer.reduction),
            (self._expected, layer.y_size),
        )
        return self.bench.seals(parts, self._seal_key)

    def revealed(self) -> Buffer:
        """Return the exact output of the stock, in a new buffer."""
        plain = self.bench.device.allocate(FLOAT_BYTES * self.layer.y_size)
        self.bench.mask(self._expected, plain, self.layer.y_size, self._mask)
        return plain


def _refuse_strays(words: list[int], guard: int) -> None:
    """Raise StrayWrite if anything around y, or of x and w, was written."""
    if words[4]:
        raise StrayWrite(f"{words[4]} word(s) before y overwritten, the nearest {guard - words[6]} before it")
    if words[7]:
        raise StrayWrite(f"{words[7]} word(s) after y overwritten, the nearest {words[8] + 1} behind its end")
    if words[10] or words[11]:
        raise StrayWrite("the kernel wrote to its inputs x or w")
    if words[12]:
        raise StrayWrite(f"{words[12]} word(s) around the inputs x and w overwritten")


def _turned(planes: int, size: int, stock: tuple[int, int], turn: Turn) -> tuple[np.generic, ...]:
    """Return the arguments by which the kernels of bench.cu find a turned plane.

    Args:
        planes, size: Of what is placed: how many planes, and a plane's elements.
        stock: Planes that belong together, an image's channels or all filters, and how many such groups there are.
    """
    numbers = (np.uint32(number) for number in (size, *stock, turn.images, turn.filters))
    return (np.uint64(planes), *numbers, np.float32(turn.scale))


def drawn_scale(magnitudes: Magnitudes) -> float:
    """Return a random power of two by which the second set stays within ``magnitudes``."""
    least, most = magnitudes
    low = max(-WIDEST_SCALE, int(np.ceil(np.log2(least))) - LEAST)
    high = min(WIDEST_SCALE, int(np.floor(np.log2(most))) - MOST - 1)
    return float(2.0 ** (low + secrets.randbelow(max(1, high - low + 1))))


def network_inputs(bench: Bench, spec: BenchSpec) -> Inputs:
    """Prepare the real inputs of a layer, and confirm the reference against NumPy.

    Raises:
        UsageError: The data set cannot be read.
        DeviceError: The device's reference is wrong.
    """
    layer, device = bench.layer, bench.device
    stages.enter("images and weights")
    dataset = load_test_split(spec.data)
    w = layer_weights(layer)
    before = stage_before(layer)
    if before is None:
        x = uploaded(bench, layer_input(layer, dataset))
    else:
        stage, w_before = before
        fed = stage.layer.with_batch(layer.B)
        x = device.allocate(FLOAT_BYTES * count_of(layer))
        y_before = device.allocate(FLOAT_BYTES * fed.y_size)
        bench.convolve(uploaded(bench, layer_input(fed, dataset)), uploaded(bench, w_before), y_before, fed)
        planes, flags = np.uint64(fed.B * fed.M), (np.int32(stage.pool), np.int32(stage.activation == "relu"))
        sides = np.int32(fed.H_out), np.int32(fed.W_out)
        bench.run("activate_and_pool", count_of(layer), y_before, x, planes, *sides, *flags)
        device.synchronize()
    stages.enter("the reference's output, and the same by NumPy")
    inputs = Inputs(bench, x, w, spec.precision, confirm=True)
    inputs.digest = hashlib.sha256(dataset.digest.encode() + w.tobytes()).hexdigest()
    return inputs


def random_inputs(bench: Bench, spec: BenchSpec) -> Inputs:
    """Prepare the second set, other numbers in each process: x of magnitudes 2^-4 to 1 and zeros, w normal."""
    layer = bench.layer
    x = bench.device.allocate(FLOAT_BYTES * count_of(layer))
    bench.run("fill_magnitudes", count_of(layer), x, np.uint64(count_of(layer)), np.uint32(drawn_key()))
    w = np.random.default_rng(secrets.randbits(64)).standard_normal(layer.w_shape, dtype=np.float32)
    return Inputs(bench, x, w / np.float32(np.sqrt(layer.reduction)), spec.precision)


def count_of(layer: ConvLayer) -> int:
    """Return the number of elements of x."""
    return layer.B * layer.C * layer.H * layer.W


def uploaded(bench: Bench, array: Array) -> Buffer:
    """Return a new buffer on the bench's device with an array's contents."""
    buffer = bench.device.allocate(array.nbytes)
    bench.device.upload(buffer, array)
    return buffer
