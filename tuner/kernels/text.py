"""Check a user's kernel before it is compiled: its entry point, its arguments, and CUDA-only words."""

from __future__ import annotations

import re

from tuner.errors import UsageError
from tuner.kernels.limits import CUDA, OPENCL, Dialect
from tuner.kernels.sources import place
from tuner.kernels.template import KernelTemplate
from tuner.problems.problem import Problem
from tuner.problems.registry import kind_of

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_KERNEL = re.compile(r"__global__[\s\w]*?(?:__launch_bounds__\s*\([^)]*\)[\s\w]*?)?\b(\w+)\s*\(")
_PLAIN_POINTER = re.compile(r"(?:(?:const|volatile|float|restrict|__restrict__|__restrict)\b|\*|\s)+\w+\s*")
_NO_FLOAT = re.compile(r"\b(?:double|half|__half|int|long|char|short|void)\s*(?:const\s*)?\*")
_NO_INT = re.compile(r"\b(?:long|short|char|float|double|size_t|u?int64_t|ptrdiff_t)\b|\*")
_CUDA_ONLY = (
    (re.compile(r"\btemplate\s*<"), "a C++ template; write a macro or a plain function"),
    (re.compile(r"\b(?:static|reinterpret|const|dynamic)_cast\s*<"), "a C++ cast; write (type)value"),
    (re.compile(r"\bnamespace\b|\b\w+::\w+"), "a C++ namespace; leave it out"),
    (re.compile(r"\bextern\s+\"C\""), 'extern "C"; leave it out'),
    (re.compile(r"\b__shared__\b"), "__shared__; write SHARED_MEMORY(float, name, count)"),
    (re.compile(r"\b__constant__\b"), "__constant__; write WEIGHTS_IN_CONSTANT(count) and CONSTANT_WEIGHTS(w)"),
    (
        re.compile(r"#\s*include\s*<(?:cuda|mma|cooperative|cub|thrust|c?std|c?math|type_traits|utility)"),
        "a header of CUDA or C++; leave it out",
    ),
    (re.compile(r"\b__shfl\w*|\b__ballot\w*|\bwmma\b|\basm\b"), "words of a warp that OpenCL lacks"),
)
_GONE = re.compile(r"\b(BULK_\w+|CLUSTER_(?:SYNC|LOAD)|BARRIER_(?:WAIT|ARRIVE)|WARPGROUP_\w+)\s*\(")
_BY_BUILD = re.compile(r"\b__(?:TIME__|DATE__|TIMESTAMP__|has_include(?:_next)?|has_embed)\b")
_BOTH = re.compile(r"__OPENCL_VERSION__|__CUDACC__|__CUDA_ARCH__|__OPENCL_C_VERSION__")


def check_source(template: KernelTemplate, dialect: Dialect) -> None:
    """Refuse a kernel that can be seen not to work.

    Raises:
        UsageError: It is empty, has no entry point of the right name, takes other arguments, or is written for CUDA
            alone and ``dialect`` is OpenCL; names the line and what to write.
    """
    kind, code = kind_of(template.problem), _COMMENT.sub(_blanked, template.source)
    if not code.strip():
        raise UsageError(f"template {template.name}: its source is empty; write __global__ void {_call(kind)}")
    at = _entry(template, kind, code)
    arguments = _arguments(code, at)
    if arguments is not None:
        _check_arguments(template, kind, place(template.source, at), arguments)
    if word := _BY_BUILD.search(code):
        where = place(template.source, word.start())
        raise UsageError(
            f"template {template.name}: {where}: {word[0]} makes another kernel of each build; leave it out"
        )
    if dialect == CUDA:
        _check_words(template, code)
    if dialect == OPENCL and not _BOTH.search(code):
        _check_plain_cuda(template, code, at, arguments or [])


def _check_words(template: KernelTemplate, code: str) -> None:
    """Refuse words of older kernels, unless the source defines them itself."""
    match = _GONE.search(code)
    if match and not re.search(rf"#\s*define\s+{match[1]}\b", code):
        raise UsageError(
            f"template {template.name}: {place(template.source, match.start())}: {match[1]} is no longer a word "
            "of kernels; include a copy of kernel_templates/ptx.cuh, which has it as a function"
        )


def _blanked(match: re.Match[str]) -> str:
    """Return blanks of a comment's length, with its line breaks; of a string only the quotes are kept."""
    text = match[0]
    if text.startswith('"'):
        return text if text == '"C"' else '"' + " " * (len(text) - 2) + '"'
    return re.sub(r"[^\n]", " ", text)


def _names(kind: type[Problem]) -> list[str]:
    """Return the names of a kernel's arguments."""
    return [declared.split()[-1].lstrip("*") for declared in kind.ARGUMENTS.split(", ")]


def _call(kind: type[Problem]) -> str:
    return f"{kind.ENTRY}({', '.join(_names(kind))})"


def _entry(template: KernelTemplate, kind: type[Problem], code: str) -> int:
    """Return where the entry point's name stands."""
    kernels = {match[1]: match.start(1) for match in _KERNEL.finditer(code)}
    if kind.ENTRY in kernels:
        return kernels[kind.ENTRY]
    if match := re.search(rf"\b{kind.ENTRY}\b", code):  # declared in an unusual way
        return match.start()
    if not kernels:
        raise UsageError(f"template {template.name}: its source has no kernel; write __global__ void {_call(kind)}")
    name, at = next(iter(kernels.items()))
    raise UsageError(
        f"template {template.name}: {place(template.source, at)}: there is no kernel {kind.ENTRY}, but {name}; call it "
        f"{_call(kind)}"
    )


def _arguments(code: str, at: int) -> list[str] | None:
    """Return the entry point's arguments as written; None if macros may stand for some."""
    match = re.compile(r"\w+\s*\(([^()]*)\)").match(code, at)
    if match is None:
        return None
    arguments = [" ".join(each.split()) for each in match[1].split(",")]
    plain = all(re.search(r"[\s*]\w+$", each) for each in arguments)
    return arguments if plain else None


def _check_arguments(template: KernelTemplate, kind: type[Problem], where: str, arguments: list[str]) -> None:
    wanted = _names(kind)
    say, arrays = f"template {template.name}: {where}: {kind.ENTRY} ", len(wanted) - len(kind.SIZES)
    if len(arguments) != len(wanted):
        raise UsageError(
            f"{say}takes {len(arguments)} arguments; it is launched with {len(wanted)}: ({', '.join(wanted)})"
        )
    for number, argument in enumerate(arguments):
        if number < arrays and ("*" not in argument or _NO_FLOAT.search(argument)):
            raise UsageError(f"{say}takes '{argument}' for {wanted[number]}; it is launched with a pointer to float")
        if number >= arrays and _NO_INT.search(argument):
            raise UsageError(f"{say}takes '{argument}' for {wanted[number]}; it is launched with an int")


def _check_plain_cuda(template: KernelTemplate, code: str, at: int, arguments: list[str]) -> None:
    """Say what to write instead of what only CUDA knows."""
    where, why = "", ""
    for pattern, what in _CUDA_ONLY:
        match = pattern.search(code)
        if match and not re.search(
            rf"#\s*define\s+{re.escape(match[0])}", code
        ):  # the template defines the word itself
            where, why = place(template.source, match.start()), f"this is {what}"
            break
    else:
        if any(_PLAIN_POINTER.fullmatch(each) for each in arguments[:3]):
            where = place(template.source, at)
            why = "pointers need GLOBAL before them: GLOBAL const float *x, GLOBAL const float *w, GLOBAL float *y"
    if where:
        raise UsageError(
            f"template {template.name}: {where}: a CPU runs OpenCL C, and {why}; or run it with --device cuda, and say "
            "dialects=(CUDA,) in its .py"
        )
