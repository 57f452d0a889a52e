"""Reading what a shared library exports, imports and runs when it is loaded.

Only little-endian 64-bit ELF, by the System V gABI chapters "Sections" and "Symbol Table" and the
x86-64 and AArch64 psABI relocations. The file is untrusted: whatever is out of bounds is an error.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_DYNSYM, _RELA, _INIT_ARRAY, _PREINIT_ARRAY, _DYNAMIC = 11, 4, 14, 16, 6
_DT_NEEDED, _STB_WEAK, _SHN_UNDEF = 1, 2, 0
_RELATIVE = {62: 8, 183: 1027}  # machine: R_X86_64_RELATIVE, R_AARCH64_RELATIVE


class ElfError(ValueError):
    """The file is not a library that can be read."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section header, with the fields that are used here."""

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class LibrarySymbols:
    """The dynamic interface of a shared library.

    Attributes:
        exported: names it defines for others.
        imported: names it must find elsewhere; loading fails without them.
        imported_weak: names it uses if they exist.
        needed: libraries that loading it loads, by SONAME.
        initialisers: addresses that the loader calls, in order.
    """

    exported: tuple[str, ...]
    imported: tuple[str, ...]
    imported_weak: tuple[str, ...]
    needed: tuple[str, ...]
    initialisers: tuple[int, ...]


def read_symbols(data: bytes) -> LibrarySymbols:
    """Reads the dynamic symbols of a shared library.

    Raises:
        ElfError: the bytes are not a little-endian 64-bit ELF file, or are damaged.
    """
    try:
        sections = read_sections(data)
        exported, imported, weak = [], [], []
        for name, binding, section in _dynamic_symbols(data, sections):
            if section != _SHN_UNDEF:
                exported.append(name)
            elif binding == _STB_WEAK:
                weak.append(name)
            else:
                imported.append(name)
        return LibrarySymbols(
            exported=tuple(sorted(exported)),
            imported=tuple(sorted(imported)),
            imported_weak=tuple(sorted(weak)),
            needed=tuple(_needed(data, sections)),
            initialisers=tuple(_initialisers(data, sections)),
        )
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ElfError(f"the library is damaged: {error}") from error


def read_sections(data: bytes) -> list[Section]:
    """Reads the section headers of an ELF file that starts at the first byte of `data`.

    Raises:
        ElfError: the bytes are not a little-endian 64-bit ELF file.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ElfError("not a little-endian 64-bit ELF file")
    table = struct.unpack_from("<Q", data, 40)[0]
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQI", data, table + i * size) for i in range(count)]
    strings = headers[names][4] if headers else 0
    return [
        Section(_text(data, strings + name), kind, address, offset, length, link)
        for name, kind, _flags, address, offset, length, link in headers
    ]


def _dynamic_symbols(data: bytes, sections: list[Section]) -> Iterator[tuple[str, int, int]]:
    for table in sections:
        if table.kind == _DYNSYM:
            strings = sections[table.link].offset
            for offset in range(table.offset + 24, table.offset + table.size, 24):
                name, info, _other, section = struct.unpack_from("<IBBH", data, offset)
                yield _text(data, strings + name), info >> 4, section


def _needed(data: bytes, sections: list[Section]) -> Iterator[str]:
    for table in sections:
        if table.kind == _DYNAMIC:
            for offset in range(table.offset, table.offset + table.size, 16):
                tag, value = struct.unpack_from("<qQ", data, offset)
                if tag == _DT_NEEDED:
                    yield _text(data, sections[table.link].offset + value)


def _initialisers(data: bytes, sections: list[Section]) -> Iterator[int]:
    """Yields the addresses in .preinit_array and .init_array; relocations hold the true values."""
    machine = struct.unpack_from("<H", data, 18)[0]
    relocated: dict[int, int] = {}
    for table in sections:
        if table.kind == _RELA:
            for offset in range(table.offset, table.offset + table.size, 24):
                address, info, addend = struct.unpack_from("<QQq", data, offset)
                if info & 0xFFFFFFFF == _RELATIVE.get(machine):
                    relocated[address] = addend
    for array in sections:
        if array.kind in (_PREINIT_ARRAY, _INIT_ARRAY):
            for index in range(0, array.size, 8):
                stored = struct.unpack_from("<Q", data, array.offset + index)[0]
                yield relocated.get(array.address + index, stored)


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()
