"""The OpenCL half of a header: the kernel's source as a C string, and its geometry as size_t arrays. C99."""

from __future__ import annotations

from tuner.export.kernel import Kernel
from tuner.problems.problem import Problem


def usage(problem: Problem, prefix: str, entry: str, file: str, arch: str) -> tuple[str, ...]:
    """Return the example for the header's comment; the driver compiles for its own ``arch``."""
    lower = prefix.lower()
    return (
        "Use, in C or C++ with OpenCL:",
        "",
        f'    #include "{file}"',
        f"    const char *source = {lower}_source;",
        "    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);",
        f"    clBuildProgram(program, 1, &device, {prefix}_OPTIONS, NULL, NULL);",
        f"    cl_kernel kernel = clCreateKernel(program, {prefix}_ENTRY, NULL);",
        f"    // arguments: {', '.join(tensor.name for tensor in problem.tensors)} (cl_mem), then "
        f"{', '.join(problem.SIZES)} (cl_int)",
        f"    // at most {prefix}_MAX_{problem.ROWS} {problem.ROWS_NOUN} a launch: no more were checked",
        f"    size_t global[3], local[3];  {lower}_global({problem.ROWS}, global);  {lower}_local(local);",
        "    clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, 0, NULL, NULL);",
    )


def body(kernel: Kernel) -> str:
    """Return the options, the geometry functions and the source."""
    problem, prefix, entry = kernel.problem, kernel.prefix, kernel.entry
    lower, rows = prefix.lower(), problem.ROWS
    axes = tuple(enumerate("XYZ"))
    return "\n".join(
        (
            f'#define {prefix}_ENTRY "{entry}"',
            f'#define {prefix}_OPTIONS "{kernel.options}"',
            "",
            "// Work-items of a group.",
            f"static inline void {lower}_local(size_t local[3])",
            "{",
            *(f"    local[{number}] = {prefix}_LAUNCH_THREADS_{axis};" for number, axis in axes),
            "}",
            "",
            f"// All work-items for {rows} {problem.ROWS_NOUN}: groups times work-items of a group. None for a",
            "// number that it is not made for, which clEnqueueNDRangeKernel refuses.",
            f"static inline void {lower}_global(int {rows}, size_t global[3])",
            "{",
            f"    size_t fits = {rows} >= {prefix}_MIN_{rows} && {rows} <= {prefix}_MAX_{rows};",
            *(
                f"    global[{number}] = fits * {prefix}_LAUNCH_GRID_{axis}({rows}) * {prefix}_LAUNCH_THREADS_{axis};"
                for number, axis in axes
            ),
            "}",
            "",
            f"static const char {lower}_source[] =",
            *(f'    "{_escaped(line)}\\n"' for line in kernel.source.strip().splitlines()),
            "    ;",
            "",
        )
    )


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("??", "?\\?")
