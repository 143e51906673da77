"""The OpenCL half of a header: the kernel's source as a C string, and its geometry as size_t arrays. C99."""

from __future__ import annotations

from tuner.export.geometry import Geometry


def usage(prefix: str, entry: str, file: str, arch: str) -> tuple[str, ...]:
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
        "    // arguments: x, w, y (cl_mem), then B, C, H, W, M, K (cl_int)",
        f"    size_t global[3], local[3];  {lower}_global(B, global);  {lower}_local(local);",
        "    clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, 0, NULL, NULL);",
    )


def body(prefix: str, entry: str, options: str, source: str, geometry: Geometry) -> str:
    """Return the options, the geometry functions and the source."""
    lower = prefix.lower()
    axes = tuple(enumerate("XYZ"))
    return "\n".join(
        (
            f'#define {prefix}_ENTRY "{entry}"',
            f'#define {prefix}_OPTIONS "{options}"',
            "",
            "// Work-items of a group.",
            f"static inline void {lower}_local(size_t local[3])",
            "{",
            *(f"    local[{number}] = {prefix}_LAUNCH_THREADS_{axis};" for number, axis in axes),
            "}",
            "",
            "// All work-items for B images: groups times work-items of a group. None for a batch it is not made for,",
            "// which clEnqueueNDRangeKernel refuses.",
            f"static inline void {lower}_global(int B, size_t global[3])",
            "{",
            f"    size_t fits = B >= {prefix}_MIN_B && B <= {prefix}_MAX_B;",
            *(
                f"    global[{number}] = fits * {prefix}_LAUNCH_GRID_{axis}(B) * {prefix}_LAUNCH_THREADS_{axis};"
                for number, axis in axes
            ),
            "}",
            "",
            f"static const char {lower}_source[] =",
            *(f'    "{_escaped(line)}\\n"' for line in source.strip().splitlines()),
            "    ;",
            "",
        )
    )


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("??", "?\\?")
