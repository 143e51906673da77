"""The names that a kernel sees: which are reserved, and which parameters or choices would collide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tuner.errors import UsageError

ARGUMENTS = ("B", "C", "H", "W", "M", "K")  # of every kernel, besides x, w and y
_PREFIXES = {
    "LAYER_": "the layer's sizes",
    "LAUNCH_": "the block's threads, and the launch in an exported header",
    "CL_": "words of OpenCL",
    "CLK_": "words of OpenCL",
    "CUDA_": "words of CUDA",
}
_HEADER = re.compile("TEMPLATE|LINKAGE|[HW]_OUT|ENTRY|OPTIONS|FITS|(MIN|MAX)_B|PRECISION|[XWY]_SIZE|FORWARD_H")
_C = re.compile(
    r"NULL|NAN|INFINITY|MAXFLOAT|HUGE_VALF?|EOF|BUFSIZ|RAND_MAX|EXIT_(SUCCESS|FAILURE)|CLOCKS_PER_SEC|CHAR_BIT|SIZE_MAX|"
    r"(U?CHAR|SCHAR|U?SHRT|U?INT|U?LONG)_(MAX|MIN)|(FLT|DBL)_(DIG|EPSILON|MAX|MIN|RADIX)|M_(PI|E)(_F)?"
)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
MOST_CHOICES = 254  # a choice's place is kept in a byte
MOST_NUMBER = 2**31 - 1


@cache
def _language() -> frozenset[str]:
    """Return the words that are defined for every kernel."""
    folder = Path(__file__).with_name("preludes")
    texts = [(folder / name).read_text(encoding="utf-8") for name in ("cuda.h", "opencl.h", "pocl.h")]
    return frozenset(word for text in texts for word in _DEFINED.findall(text))


def check_name(name: str, what: str = "parameter") -> None:
    """Refuse a parameter's or a size's name that means something else in a kernel or a header.

    Raises:
        UsageError: It is reserved; says by what.
    """
    prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
    if name in ARGUMENTS:
        taken = f"an argument of every kernel is called so; call it TILE_{name}, for example"
    elif prefix:
        taken = f"names that begin with {prefix} are {_PREFIXES[prefix]}; give another"
    elif name in _language():
        taken = (
            f"{name} is a word that kernels are written with (tuner/kernels/preludes); give another, such as MY_{name}"
        )
    elif _HEADER.fullmatch(name):
        taken = f"{name} is a word of every exported header; give another, such as MY_{name}"
    elif _C.fullmatch(name):
        taken = f"{name} is a word of C; give another, such as MY_{name}"
    else:
        return
    raise UsageError(f"{what} {name}: {taken}")


def enumerator(name: str, word: str) -> str:
    """Return the C name of a word choice: ``GRID_LAYOUT`` and ``B,M,1`` give ``GRID_LAYOUT_B_M_1``."""
    return f"{name}_" + re.sub(r"\W+", "_", word, flags=re.ASCII).upper()


def check_choices(name: str, choices: Sequence[int | str]) -> None:
    """Refuse choices that a kernel could not tell apart, or not read.

    Raises:
        UsageError: Numbers mixed with words, two words of one spelling, or a number that is no ``int``.
    """
    if len(choices) > MOST_CHOICES:
        raise UsageError(f"parameter {name}: {len(choices)} choices; at most {MOST_CHOICES} are supported")
    numbers = [choice for choice in choices if isinstance(choice, int)]
    words = [choice for choice in choices if isinstance(choice, str)]
    if numbers and words:
        raise UsageError(
            f"parameter {name}: {numbers[0]} is a number and '{words[0]}' a word, which a kernel cannot tell apart; "
            f"give words alone ('{numbers[0]}') or numbers alone"
        )
    if any(abs(number) > MOST_NUMBER for number in numbers):
        raise UsageError(f"parameter {name}: {max(numbers, key=abs)} is no int of a kernel; give less than 2^31")
    seen: dict[str, str] = {}
    for word in words:
        if not word.strip() or not word.isprintable():
            raise UsageError(f"parameter {name}: choice {word!r} cannot be written; give letters or digits")
        if (before := seen.setdefault(enumerator(name, word), word)) != word:
            raise UsageError(
                f"parameter {name}: choices '{before}' and '{word}' are both {enumerator(name, word)} in a kernel; "
                "rename one"
            )


def check_together(template: str, words: Iterable[tuple[str, str]]) -> None:
    """Refuse parameters that define the same word.

    Args:
        words: Each word that a kernel sees, and what it is.

    Raises:
        UsageError: Names the word and both that define it.
    """
    seen: dict[str, str] = {}
    for word, what in words:
        if (before := seen.setdefault(word, what)) != what:
            raise UsageError(f"template {template}: {word} is both {before} and {what}; rename one")
