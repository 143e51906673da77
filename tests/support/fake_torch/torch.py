"""A stand-in for PyTorch: as much of it as the comparison uses, on NumPy, with faults on demand.

``FAKE_TORCH`` names what goes wrong: ``no_cuda``, ``refuses_fp16``, ``writes_nan``, ``dies_on_channels_last``. ``LOG``
records what was called, in order.
"""

import os
from types import SimpleNamespace

import numpy as np

__version__ = "9.9+fake"
LOG = []
float32, float16, bfloat16 = np.float32, np.float16, "bfloat16"
channels_last, contiguous_format = "channels_last", "contiguous"
CARD = "Test Card"


def fault():
    return os.environ.get("FAKE_TORCH", "")


class Tensor:
    """An array with a precision, a format and a device."""

    def __init__(self, array, dtype=float32, device="cpu", layout=contiguous_format):
        self.array, self.dtype, self.device, self.layout = array, dtype, device, layout

    @property
    def shape(self):
        return self.array.shape

    def __getitem__(self, part):
        return Tensor(self.array[part], self.dtype, self.device)

    def __sub__(self, other):
        assert self.device == other.device
        return Tensor(self.array - other.array)

    def __float__(self):
        return float(self.array)

    def float(self):
        return Tensor(self.array.astype(np.float32), float32, self.device)

    def to(self, device):
        return Tensor(self.array, self.dtype, device)

    def abs(self):
        return Tensor(np.abs(self.array))

    def max(self):
        return Tensor(self.array.max())

    def copy_(self, source):
        self.array[...] = rounded(source.array, self.dtype)
        return self

    def fill_(self, value):
        LOG.append(f"flush {self.array.nbytes}")
        self.array[...] = value


def rounded(array, dtype):
    if dtype == bfloat16:
        return (array.view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32)
    return array.astype(dtype)


def from_numpy(array):
    return Tensor(array)


def empty(shape, dtype, device, memory_format=contiguous_format):
    return Tensor(np.zeros(shape, np.float32 if dtype == bfloat16 else dtype), dtype, device, memory_format)


def conv2d(x, w):
    from tuner.problems.conv.reference import float32_conv

    name = getattr(x.dtype, "__name__", x.dtype)
    LOG.append(f"conv2d {name} {x.layout} {w.layout} tf32={backends.cudnn.allow_tf32} on {x.device}")
    if fault() == "refuses_fp16" and x.dtype == float16:
        raise RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED\nmore lines")
    if fault() == "dies_on_channels_last" and x.layout == channels_last:
        os._exit(7)
    y = float32_conv(x.array.astype(np.float32), w.array.astype(np.float32))
    if fault() == "writes_nan":
        y[-1, -1, -1, -1] = np.nan
    return Tensor(y, x.dtype, x.device)


def matmul(a, b):
    LOG.append(f"matmul tf32={backends.cuda.matmul.allow_tf32} on {a.device}")
    return Tensor(a.array.astype(np.float32) @ b.array.astype(np.float32), a.dtype, a.device)


def compile(function, mode):
    LOG.append(f"compile {function.__code__.co_name} {mode}")
    return function


def set_grad_enabled(mode):
    LOG.append(f"grad {mode}")


def device(name):
    return name


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        LOG.append("record")

    def synchronize(self):
        LOG.append("synchronize")

    def elapsed_time(self, end):
        return 2.5


nn = SimpleNamespace(functional=SimpleNamespace(conv2d=conv2d))
backends = SimpleNamespace(
    cudnn=SimpleNamespace(benchmark=False, allow_tf32=True, version=lambda: 91000),
    cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)),
)
cuda = SimpleNamespace(
    is_available=lambda: fault() != "no_cuda",
    set_device=lambda name: None,
    get_device_name=lambda name: CARD,
    synchronize=lambda: None,
    Event=Event,
)
