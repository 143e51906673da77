"""PyTorch's side of a comparison, in its own process: its context, libraries and faults stay there.

The inputs are copied to the device in the variant's layout and precision before anything is timed: converting them is
not part of the time. A sample is one call between two events, after a buffer as large as our own flush was written.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from tuner.compare.rows import CHANNELS_LAST, Variant
from tuner.errors import TunerError
from tuner.folders import cache_folder
from tuner.problems.problem import LibraryCall

WARM_UPS = 3
AUTOTUNE = "max-autotune-no-cudagraphs"  # a CUDA graph would copy x at each call, and save no timed work
CHECK_BYTES = 256 << 20  # bytes of the output compared at a time
MIN_FLUSH = 256 << 20  # bytes on a GPU: writing them takes longer than a launch from Python, which is thus not timed
EXPECTED = "expected.npy"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSpec:
    """What PyTorch's process needs: a device, the folder with inputs and the reference's output, and the flush.

    Attributes:
        inputs: Their names, in the order of the call; each is a file ``NAME.npy``.
        model: The card's name as the driver gives it: both sides must use the same one. Empty on a CPU.
    """

    device: str
    folder: str
    flush_bytes: int
    call: LibraryCall
    inputs: tuple[str, ...]
    model: str = ""


class _Bench:
    """Everything the process keeps: data on the host, the flush buffer, and a call for each variant entered."""

    def __init__(self, spec: TorchSpec) -> None:
        kept = cache_folder() / "torchinductor"  # the default, in TMPDIR, is deleted with this process
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kept))
        import torch

        self.spec, self.torch = spec, torch
        self.on_gpu = spec.device.startswith("cuda")
        self.device = torch.device(spec.device)
        if self.on_gpu:
            self._use_gpu()
        torch.set_grad_enabled(False)
        torch.backends.cudnn.benchmark = True
        folder = Path(spec.folder)
        *self.inputs, self.expected = (
            torch.from_numpy(np.load(folder / name, mmap_mode="c"))
            for name in (*(f"{name}.npy" for name in spec.inputs), EXPECTED)
        )
        flush = max(spec.flush_bytes, MIN_FLUSH if self.on_gpu else 0)
        self.flush = torch.empty(flush // 4, dtype=torch.float32, device=self.device)
        self.calls: dict[Variant, Callable[[], Any]] = {}

    def _use_gpu(self) -> None:
        torch, device = self.torch, self.device
        if not torch.cuda.is_available():
            raise TunerError(f"PyTorch {torch.__version__} has no CUDA here; install its CUDA build")
        torch.cuda.set_device(device)
        if (name := torch.cuda.get_device_name(device)) != self.spec.model:
            raise TunerError(f"PyTorch's {device} is {name}, ours {self.spec.model}; set CUDA_DEVICE_ORDER=PCI_BUS_ID")

    @property
    def facts(self) -> str:
        torch = self.torch
        cudnn = f", cuDNN {torch.backends.cudnn.version()}" if self.on_gpu else ""
        return f"PyTorch {torch.__version__}{cudnn}"

    def call(self, variant: Variant) -> Callable[[], Any]:
        """Return the variant's call, ready to be timed: inputs in place, algorithm chosen, warmed up."""
        if variant not in self.calls:
            self._choose(variant)
            inputs = [self._placed(each, variant) for each in self.inputs]
            function = self._function(variant)
            for _ in range(WARM_UPS):
                function(*inputs)
            self.synchronize()
            self.calls[variant] = lambda: function(*inputs)
        return self.calls[variant]

    def _function(self, variant: Variant) -> Callable[..., Any]:
        eager: Callable[..., Any] = attrgetter(self.spec.call.function)(self.torch)
        if not variant.compiled:
            return eager
        # Compiled code is cached by code object, regardless of the TF32 switch: each variant gets its own.
        code = _called.__code__.replace(co_name=f"{eager.__name__}_{variant.precision}")
        plain = FunctionType(code, {**globals(), "operation": eager})
        compiled: Callable[..., Any] = self.torch.compile(plain, mode=AUTOTUNE)
        return compiled

    def _placed(self, source: Any, variant: Variant) -> Any:
        """Copy to the device; a new tensor of the wanted format, since ``to`` takes one channel for either format."""
        torch = self.torch
        types = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        layout = torch.channels_last if variant.layout == CHANNELS_LAST else torch.contiguous_format
        kind = {"dtype": types[variant.precision], "device": self.device, "memory_format": layout}
        return torch.empty(tuple(source.shape), **kind).copy_(source)

    def _choose(self, variant: Variant) -> None:
        attrgetter(self.spec.call.tf32)(self.torch.backends).allow_tf32 = variant.precision == "tf32"

    def synchronize(self) -> None:
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def largest_error(self, variant: Variant) -> float:
        """Compare every element of the variant's output with the reference.

        Raises:
            TunerError: The output has another shape, or an element is NaN or infinite.
        """
        call = self.call(variant)
        self._choose(variant)
        y, expected = call(), self.expected
        if tuple(y.shape) != tuple(expected.shape):
            raise TunerError(f"its output has shape {tuple(y.shape)}, the reference's is {tuple(expected.shape)}")
        step = max(1, CHECK_BYTES // (4 * math.prod(expected.shape[1:])))
        parts = range(0, expected.shape[0], step)
        errors = [
            float((y[start : start + step].float() - expected[start : start + step].to(self.device)).abs().max())
            for start in parts
        ]
        if not all(map(math.isfinite, errors)):
            raise TunerError("its output has elements that are NaN or infinite")
        return max(errors)

    def sample(self, variant: Variant) -> float:
        """Return the seconds of one call from a cold cache."""
        call = self.call(variant)
        self._choose(variant)
        self.flush.fill_(0.0)
        if not self.on_gpu:
            started = time.perf_counter()
            call()
            return time.perf_counter() - started
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return 1e-3 * float(start.elapsed_time(end))


def _called(first: Any, second: Any) -> Any:
    return operation(first, second)  # type: ignore[name-defined]  # noqa: F821  (given when a copy of this code is made)


_bench: _Bench | None = None


def _opened(spec: TorchSpec) -> _Bench:
    global _bench  # noqa: PLW0603  (one device, one bench, one process)
    if _bench is None or _bench.spec != spec:
        _bench = _Bench(spec)
    return _bench


def _guarded(spec: TorchSpec, use: Callable[[_Bench], Any]) -> Any:
    """Turn whatever PyTorch raises into one line: its exceptions may not survive pickling."""
    try:
        return use(_opened(spec))
    except TunerError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise TunerError(f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]) from None


def open_torch(spec: TorchSpec) -> str:
    """Import PyTorch and prepare its device; return its versions."""
    return str(_guarded(spec, lambda bench: bench.facts))


def enter_variant(spec: TorchSpec, variant: Variant) -> float:
    """Prepare a variant and return its largest error."""
    return float(_guarded(spec, lambda bench: bench.largest_error(variant)))


def sample_variant(spec: TorchSpec, variant: Variant) -> float:
    """Return one sample in seconds; a process that was replaced prepares the variant again first."""
    return float(_guarded(spec, lambda bench: bench.sample(variant)))
