"""NVIDIA fat binaries: finding the PTX in them.

The format is not documented by NVIDIA; the fields used here are those that `fatbinary` of CUDA 11 to 13
writes: a header (magic, version, header size, total size) and entries (kind, header size, payload
size, architecture, flags).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from astra_kernels.simulator.binary import Binary
from astra_kernels.simulator.elf import ElfFile
from astra_kernels.simulator.errors import CompressedFatbin

_MAGIC = 0xBA55ED50
_NAME = "the library's fat binary"
_HEADER_BYTES = 16
_ENTRY_BYTES = 48
_PTX_KIND = 1
_CUBIN_KIND = 2
_SIZED_VALUE = 4  # a form of attributes in .nv.info
_REGISTER_COUNT = 0x2F
_COMPRESSED = 0xE000  # the flags' bits that say which compression was used


@dataclass(frozen=True)
class _Entry:
    kind: int
    architecture: int
    compressed: bool
    payload: bytes


def total_size(header: bytes) -> int:
    """Bytes of the fat binary that starts with this header of 16 bytes.

    Raises:
        CompressedFatbin: It is not a fat binary.
        DamagedLibrary: It is shorter than a header.
    """
    magic, _, header_size, size = Binary(header, _NAME).unpack("<IHHQ", 0)
    if magic != _MAGIC:
        raise CompressedFatbin("not a fat binary")
    return int(header_size + size)


def _entries(data: bytes) -> list[_Entry]:
    image = Binary(data, _NAME)
    at, end = _HEADER_BYTES, total_size(data)
    image.take(0, end)
    entries = []
    while at + _ENTRY_BYTES <= end:
        kind, _, header_size, size = image.unpack("<HHIQ", at)
        (architecture,) = image.unpack("<I", at + 28)
        (flags,) = image.unpack("<Q", at + 40)
        if header_size < _ENTRY_BYTES:
            raise image.damaged(f"an entry's header of {header_size} bytes")
        start = at + header_size
        payload = image.take(start, size)
        entries.append(_Entry(kind, architecture, bool(flags & _COMPRESSED), payload))
        at = start + size
    return entries


def find_ptx(data: bytes, architecture: int) -> str:
    """The PTX for the newest architecture that the machine can run.

    Args:
        data: A whole fat binary.
        architecture: The machine's, as 10 * major + minor.

    Raises:
        CompressedFatbin: All PTX is compressed, or there is none for this machine.
    """
    ptx = [entry for entry in _entries(data) if entry.kind == _PTX_KIND]
    suitable = [entry for entry in ptx if entry.architecture <= architecture]
    readable = [entry for entry in suitable if not entry.compressed]
    if not suitable:
        raise CompressedFatbin(
            f"the library holds no PTX for compute_{architecture} or older; build it with "
            f"-gencode arch=compute_{architecture},code=compute_{architecture}"
        )
    if not readable:
        raise CompressedFatbin("the library's PTX is compressed; build it with nvcc --no-compress")
    best = max(readable, key=lambda entry: entry.architecture)
    return best.payload.rstrip(b"\0").decode("utf-8", "replace")


def holds_ptx(data: bytes) -> bool:
    """Whether there is PTX in it; the linker's own images have none."""
    return any(entry.kind == _PTX_KIND for entry in _entries(data))


def _register_counts(info: bytes) -> dict[int, int]:
    """Registers by the kernel's symbol number, from a cubin's `.nv.info` attributes."""
    counts: dict[int, int] = {}
    table = Binary(info, "a cubin's .nv.info")
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = table.unpack("<BBH", at)
        at += 4
        if form != _SIZED_VALUE:
            continue
        if attribute == _REGISTER_COUNT:
            symbol, count = table.unpack("<II", at)
            counts[symbol] = count
        at += size
    return counts


def find_registers(data: bytes, architecture: int) -> dict[str, int]:
    """Registers a thread of each kernel that has machine code for this very architecture.

    A cubin is an ELF file; its section `.text.<kernel>` names the kernel's symbol in its `info` field.
    Compressed ones are passed over.
    """
    registers: dict[str, int] = {}
    for entry in _entries(data):
        usable = entry.kind == _CUBIN_KIND and not entry.compressed
        if not usable or entry.architecture != architecture:
            continue
        cubin = ElfFile(entry.payload, "cubin")
        counts = _register_counts(cubin.section(".nv.info"))
        for name, symbol in cubin.section_infos(".text.").items():
            if symbol in counts:
                registers[name] = counts[symbol]
    return registers


def images(section: bytes) -> list[bytes]:
    """The fat binaries in a `.nv_fatbin` section, one for each translation unit."""
    found = []
    whole = Binary(section, "the section .nv_fatbin")
    for start in re.finditer(re.escape(struct.pack("<I", _MAGIC)), section):
        header = whole.take(start.start(), _HEADER_BYTES)
        found.append(whole.take(start.start(), total_size(header)))
    return found
