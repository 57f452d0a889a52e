"""Where a loaded library keeps the addresses of the functions that it imports.

Relocations as in the System V ABI (`Elf64_Rela`) and its supplements for x86-64 and AArch64.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

_RELA, _DYNSYM = 4, 11
_SLOTS = frozenset((1, 6, 7, 257, 1025, 1026))
"""R_X86_64_64, GLOB_DAT, JUMP_SLOT; R_AARCH64_ABS64, GLOB_DAT, JUMP_SLOT."""


def replace_imports(library: Path, symbol: str, address: int, others: Mapping[str, int]) -> None:
    """Makes a loaded library call other functions than those that the loader found.

    Args:
        library: its file.
        symbol: a function that it exports.
        address: where that function lies.
        others: addresses by the name of the imported function.

    Raises:
        OSError: its memory cannot be written.
    """
    image = library.read_bytes()
    sections = _sections(image)
    symbols = next((s for s in sections if s[1] == _DYNSYM), None)
    if symbols is None:
        return
    named = list(_symbols(image, sections, symbols))
    base = address - next(value for name, value in named if name == symbol)
    for kind, offset, size in ((s[1], s[4], s[5]) for s in sections):
        if kind != _RELA:
            continue
        for at in range(offset, offset + size, 24):
            slot, info, _ = struct.unpack_from("<QQq", image, at)
            name = named[info >> 32][0] if info >> 32 < len(named) else ""
            if name in others and info & 0xFFFFFFFF in _SLOTS:
                set_access(base + slot, 8, mmap.PROT_READ | mmap.PROT_WRITE)
                ctypes.c_uint64.from_address(base + slot).value = others[name]


def set_access(address: int, size: int, access: int) -> None:
    """Changes the protection of the pages that hold these bytes.

    Raises:
        OSError: the system refuses.
    """
    start = address // mmap.PAGESIZE * mmap.PAGESIZE
    end = -(-(address + size) // mmap.PAGESIZE) * mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), access) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


def _sections(image: bytes) -> list[tuple[int, ...]]:
    (start,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    return [struct.unpack_from("<IIQQQQIIQQ", image, start + i * entry_size) for i in range(count)]


def _symbols(
    image: bytes, sections: list[tuple[int, ...]], symbols: tuple[int, ...]
) -> Iterator[tuple[str, int]]:
    strings = sections[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, value = struct.unpack_from("<I4xQ", image, at)
        yield image[strings + name : image.index(b"\0", strings + name)].decode(), value
