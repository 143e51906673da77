"""The CUDA half of a header: the kernel in a namespace of its own, and a function that launches it."""

from __future__ import annotations

import re

from tuner.export.kernel import Kernel
from tuner.problems.problem import Problem

_STATIC_SHARED = 48 * 1024  # more needs the kernel's consent
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_SIZE = re.compile(r"^constexpr (?:int|bool) (\w+) =", re.MULTILINE)
_HELPER = re.compile(r"^(?=__device__[^;={\n]*\()(?![^(\n]*\b(?:__forceinline__|inline|static)\b)", re.MULTILINE)
_CONSTANT_WORDS = re.compile(r"^#define (?:WEIGHTS_IN_CONSTANT|CONSTANT_WEIGHTS)\(.*\n", re.MULTILINE)
_PLAIN_WORDS = (
    "stream",
    "error",
    "begin",
    "end",
)  # of the launcher, that a program may have defined; so may be the arguments


def usage(problem: Problem, prefix: str, entry: str, file: str, arch: str) -> tuple[str, ...]:
    """Return the example for the header's comment."""
    return (
        f"Use, in a .cu file (nvcc {target(arch)} -c; {_and(problem)} are device pointers):",
        "",
        f'    #include "{file}"',
        f"    cudaError_t error = {entry}_launch({_given(problem)}, stream);",
        '    if (error != cudaSuccess) fprintf(stderr, "%s\\n", cudaGetErrorString(error));',
        "    cudaStreamSynchronize(stream);",
        "",
        "A .cpp file that includes it sees the sizes and the launcher's declaration; one .cu file defines it. Define",
        f"{prefix}_LINKAGE as static before the include to use it in several .cu files of one program.",
    )


def split_usage(problem: Problem, entry: str, file: str, arch: str) -> tuple[str, ...]:
    """Return the example for a header whose kernel is in a file beside it."""
    source = f"{file.removesuffix('.h')}.cu"
    return (
        f"Use, in any C or C++ file, and link with {source} (nvcc {target(arch)} -c {source}):",
        "",
        f'    #include "{file}"',
        f"    {entry}_launch({_given(problem)}, stream);  // {_and(problem)} are device pointers",
    )


def target(arch: str) -> str:
    """Return nvcc's options for one architecture; -arch=sm_90a alone would compile for sm_90 as well."""
    return f"-gencode arch=compute_{arch.removeprefix('sm_')},code={arch}" if arch.endswith("a") else f"-arch={arch}"


def body(kernel: Kernel) -> str:
    """Return the kernel and its host functions for nvcc, and for other compilers the launcher's declaration."""
    problem, prefix, source = kernel.problem, kernel.prefix, kernel.source
    plain = (*(tensor.name for tensor in problem.tensors), *problem.SIZES, *_PLAIN_WORDS)
    words = [*plain, *dict.fromkeys([*_DEFINE.findall(source), *_SIZE.findall(source)])]
    return "\n".join(
        (
            "#ifdef __CUDACC__",
            "#include <cuda_runtime.h>",
            "",
            f"#ifndef {prefix}_LINKAGE",
            f'#define {prefix}_LINKAGE extern "C"  // an unmangled name, for cuModuleGetFunction and for .cpp files',
            "#endif",
            "",
            "// Words that are the kernel's alone; a program's own of these names come back below.",
            *(line for word in words for line in (f'#pragma push_macro("{word}")', f"#undef {word}")),
            "",
            *definition(kernel),
            "",
            *(f'#pragma pop_macro("{word}")' for word in words),
            "",
            f"#elif !defined {prefix}_LINKAGE",
            *declaration(problem, kernel.entry),
            "#endif  // __CUDACC__",
            "",
        )
    )


def definition(kernel: Kernel) -> list[str]:
    """Return the kernel and its host functions, as lines for nvcc."""
    prefix, source = kernel.prefix, kernel.source
    constant = _weights_in_constant(source)
    if not constant:  # without the words, a kernel that did use constant memory would not compile
        source = _CONSTANT_WORDS.sub("", source)
    return [
        "#pragma nv_diagnostic push",
        "#pragma nv_diag_suppress 177  // a configuration may leave a name of its template unused",
        f"namespace {prefix.lower()} {{",
        "",
        _linked(prefix, source).strip(),
        "",
        f"}}  // namespace {prefix.lower()}",
        "",
        *_host(kernel, constant),
        "#pragma nv_diagnostic pop",
    ]


def declaration(problem: Problem, entry: str) -> list[str]:
    """Return what other compilers see of the launcher, whether CUDA's own header is on their path or not."""
    arguments = f"({_declared(problem)}, "
    return [
        "#ifdef __has_include",
        "#if __has_include(<cuda_runtime_api.h>)",
        "#include <cuda_runtime_api.h>",
        "#endif",
        "#endif",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "#ifdef __CUDA_RUNTIME_API_H__",
        f"cudaError_t {entry}_launch{arguments}cudaStream_t stream);",
        "#else",
        "struct CUstream_st;  // cudaStream_t points at one; 0 is cudaSuccess",
        f"int {entry}_launch{arguments}struct CUstream_st *stream);",
        "#endif",
        "#ifdef __cplusplus",
        "}",
        "#endif",
    ]


def _linked(prefix: str, source: str) -> str:
    """Let several .cu files hold this source: the kernel's linkage is the user's choice, helpers are inline."""
    source = _HELPER.sub("inline ", source)
    return re.sub(r'^(?:extern "C" )?__global__', f"{prefix}_LINKAGE __global__", source, flags=re.MULTILINE)


def _weights_in_constant(source: str) -> bool:
    """Tell whether the kernel reads w from constant memory: it may, and its parameter WEIGHTS, if any, says so."""
    uses = len(re.findall(r"\bWEIGHTS_IN_CONSTANT\b", source)) > 1  # once is the definition of the word
    chosen = re.search(r"^#define WEIGHTS (\w+)$", source, re.MULTILINE)
    return uses and (chosen is None or chosen[1] == "WEIGHTS_CONSTANT")


def _host(kernel: Kernel, constant: bool) -> list[str]:
    prefix, rows = kernel.prefix, kernel.problem.ROWS
    lines = [
        f"static inline dim3 {prefix.lower()}_grid(int {rows})",
        "{",
        f"    return dim3({', '.join(f'{prefix}_LAUNCH_GRID_{axis}({rows})' for axis in 'XYZ')});",
        "}",
        "",
        f"static inline dim3 {prefix.lower()}_block()",
        "{",
        f"    return dim3({', '.join(f'{prefix}_LAUNCH_THREADS_{axis}' for axis in 'XYZ')});",
        "}",
        "",
    ]
    if constant:
        target = f"{prefix.lower()}::w_constant"
        lines += [
            "// The kernel reads w from constant memory: w_constant must hold it before the launch, as this copy does.",
            f"static inline cudaError_t {prefix.lower()}_set_weights(const float *w, cudaStream_t stream)",
            "{",
            f"    return cudaMemcpyToSymbolAsync({target}, w, sizeof {target}, 0,",
            "                                   cudaMemcpyDeviceToDevice, stream);",
            "}",
            "",
        ]
    return lines + _launcher(kernel, constant)


def _launcher(header: Kernel, constant: bool) -> list[str]:
    problem, prefix, entry, geometry = header.problem, header.prefix, header.entry, header.geometry
    rows, lower = problem.ROWS, prefix.lower()
    kernel = f"{lower}::{entry}"
    part = geometry.part(problem)
    before: list[str] = []
    if geometry.launch.shared_bytes > _STATIC_SHARED:
        before += [
            "    // More than 48 KB of shared memory: the kernel has to be told that it may.",
            f"    error = cudaFuncSetAttribute((const void *){kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize,",
            f"                                 {prefix}_LAUNCH_SHARED_BYTES);",
            "    if (error != cudaSuccess) return error;",
        ]
    if constant:
        before += [f"    error = {lower}_set_weights(w, stream);", "    if (error != cudaSuccess) return error;"]
    return [
        f"// Start the kernel for {rows} {problem.ROWS_NOUN} and return at once; {_and(problem)} are device pointers.",
        f"{prefix}_LINKAGE cudaError_t {entry}_launch(",
        f"    {_declared(problem)}, cudaStream_t stream)",
        "{",
        f"    if ({rows} < {prefix}_MIN_{rows}{'' if part else f' || {rows} > {prefix}_MAX_{rows}'}) "
        "return cudaErrorInvalidValue;",
        *(["    cudaError_t error = cudaSuccess;"] if part or any("error" in line for line in before) else []),
        *before,
        *(_in_parts(header, part) if part else _start(header, looped=False)),
        *(["    return error;"] if part else ["    return cudaGetLastError();"]),
        "}",
    ]


def _in_parts(header: Kernel, part: int) -> list[str]:
    """Return a loop of launches, none of which has more rows than were checked."""
    rows, most = header.problem.ROWS, f"{header.prefix}_MAX_{header.problem.ROWS}"
    return [
        f"    for (int begin = 0, end; begin < {rows} && error == cudaSuccess; begin = end) {{",
        f"        end = {rows} - begin > {most} ? begin + {part} : {rows};",
        *_start(header, looped=True),
        "        error = cudaGetLastError();",
        "    }",
    ]


def _start(header: Kernel, *, looped: bool) -> list[str]:
    """Return the launch of all rows, or in a loop of those from ``begin`` to ``end``."""
    problem, prefix, lower = header.problem, header.prefix, header.prefix.lower()
    indent = "        " if looped else "    "
    count = "end - begin" if looped else problem.ROWS
    tensors = (
        f"{tensor.name} + {prefix}_{tensor.name.upper()}_SIZE(begin)" if looped and tensor.rows else tensor.name
        for tensor in problem.tensors
    )
    sizes = (count if size == problem.ROWS else f"{prefix}_{size}" for size in problem.SIZES)
    return [
        f"{indent}{lower}::{header.entry}<<<{lower}_grid({count}), {lower}_block(), {prefix}_LAUNCH_SHARED_BYTES, "
        "stream>>>(",
        f"{indent}    {', '.join(tensors)},",
        f"{indent}    {', '.join(sizes)});",
    ]


def _declared(problem: Problem) -> str:
    """Return the launcher's arguments but the stream."""
    tensors = (f"{'' if tensor.output else 'const '}float *{tensor.name}" for tensor in problem.tensors)
    return ", ".join((*tensors, f"int {problem.ROWS}"))


def _given(problem: Problem) -> str:
    return ", ".join((*(tensor.name for tensor in problem.tensors), problem.ROWS))


def _and(problem: Problem) -> str:
    *names, last = (tensor.name for tensor in problem.tensors)
    return f"{', '.join(names)} and {last}"
