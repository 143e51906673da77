"""Memory of its own that compiled code keeps from launch to launch, read from the sections of its ELF files."""

from __future__ import annotations

from io import BytesIO
from typing import Any

EM_CUDA = 190
_CUDA_WRITABLE = (".nv.global",)
_HOST_READ_ONLY = (
    ".text", ".rodata", ".lrodata", ".eh_frame", ".dynamic", ".dynsym", ".dynstr", ".hash", ".gnu.hash", ".rela",
    ".plt", ".got", ".note", ".data.rel.ro", ".relro_padding", ".gnu.version",
)  # fmt: skip
_ALLOC = 2  # the section's flag of what is loaded
_MAGIC = b"\x7fELF"


def static_bytes(binary: bytes) -> int:
    """Return how many bytes of writable static memory a cubin has, or the machine code in one of PoCL's programs."""
    total, start = 0, binary.find(_MAGIC)
    while start >= 0:
        total += _of_file(binary[start:])
        start = binary.find(_MAGIC, start + len(_MAGIC))
    return total


def allocates(binary: bytes) -> bool:
    """Whether a cubin calls CUDA's malloc, whose memory still holds what it held when it was freed."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        file = ELFFile(BytesIO(binary))
        table = file.get_section_by_name(".symtab") if _is_cuda(file) else None
        return table is not None and any(
            each.name == "malloc" and each["st_shndx"] == "SHN_UNDEF" for each in table.iter_symbols()
        )
    except ELFError:
        return False


def _is_cuda(file: Any) -> bool:
    return file["e_machine"] in (EM_CUDA, "EM_CUDA")


def _of_file(binary: bytes) -> int:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        file = ELFFile(BytesIO(binary))
        sections = [(each.name, each["sh_size"], each["sh_flags"]) for each in file.iter_sections()]
        cuda = _is_cuda(file)
    except (ELFError, UnicodeDecodeError):  # four bytes of something else that look like a file's first
        return 0
    if cuda:
        return sum(size for name, size, _ in sections if name.startswith(_CUDA_WRITABLE))
    loaded = ((name, size) for name, size, flags in sections if flags & _ALLOC)
    return sum(size for name, size in loaded if not name.startswith(_HOST_READ_ONLY))
