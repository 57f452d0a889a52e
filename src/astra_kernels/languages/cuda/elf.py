"""Reading what a shared library exports, imports and runs when it is loaded.

Only little-endian 64-bit ELF, by the System V gABI chapters "Sections" and "Symbol Table" and the
x86-64 and AArch64 psABI relocations. The file is untrusted: whatever is out of bounds is an error.
"""

import contextlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_SYMTAB, _DYNSYM, _RELA, _DYNAMIC, _NOBITS = 2, 11, 4, 6, 8
_INIT_ARRAY, _FINI_ARRAY, _PREINIT_ARRAY = 14, 15, 16
_DT_NEEDED, _STB_WEAK, _STT_FUNC, _STT_IFUNC, _SHN_UNDEF = 1, 2, 2, 10, 0
_EM_CUDA = 190
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
        initialisers: names of the functions that run when it is loaded, in order; an address where
            there is no name.
        finalisers: likewise, when it is unloaded.
        resolvers: names of indirect functions, whose resolvers also run on loading.
    """

    exported: tuple[str, ...]
    imported: tuple[str, ...]
    imported_weak: tuple[str, ...]
    needed: tuple[str, ...]
    initialisers: tuple[str, ...]
    finalisers: tuple[str, ...]
    resolvers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """One entry of a symbol table; `section` 0 means that it is defined elsewhere."""

    name: str
    kind: int
    binding: int
    section: int
    address: int
    size: int


def read_symbols(data: bytes) -> LibrarySymbols:
    """Reads the dynamic symbols of a shared library.

    Raises:
        ElfError: the bytes are not a little-endian 64-bit ELF file, or are damaged.
    """
    with damage_reported():
        sections = read_sections(data)
        dynamic = list(_symbols(data, sections, _DYNSYM))
        local = list(_symbols(data, sections, _SYMTAB))
        undefined = [one for one in dynamic if one.section == _SHN_UNDEF]
        names = {one.address: one.name for one in (*dynamic, *local) if one.kind == _STT_FUNC}
        relocated = _relocated(data, sections)

        def called(*kinds: int) -> tuple[str, ...]:
            addresses = _array(data, sections, relocated, kinds)
            return tuple(names.get(address, hex(address)) for address in addresses)

        return LibrarySymbols(
            exported=_sorted(one.name for one in dynamic if one.section != _SHN_UNDEF),
            imported=_sorted(one.name for one in undefined if one.binding != _STB_WEAK),
            imported_weak=_sorted(one.name for one in undefined if one.binding == _STB_WEAK),
            needed=tuple(_needed(data, sections)),
            initialisers=called(_PREINIT_ARRAY, _INIT_ARRAY),
            finalisers=called(_FINI_ARRAY),
            resolvers=_sorted(one.name for one in (*dynamic, *local) if one.kind == _STT_IFUNC),
        )


def read_sections(data: bytes) -> list[Section]:
    """Reads the section headers of an ELF file that starts at the first byte of `data`.

    Raises:
        ElfError: the bytes are not a little-endian 64-bit ELF file.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ElfError("not a little-endian 64-bit ELF file")
    with damage_reported():
        table = struct.unpack_from("<Q", data, 40)[0]
        size, count, names = struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQI", data, table + i * size) for i in range(count)]
        strings = headers[names][4] if headers else 0
        return [
            Section(_text(data, strings + name), kind, address, offset, length, link)
            for name, kind, _flags, address, offset, length, link in headers
        ]


def embedded_cubins(library: bytes) -> Iterator[bytes]:
    """Yields the machine code images of a library whose fatbin was not compressed.

    Raises:
        ElfError: the library, or an image in it, is damaged.
    """
    for section in read_sections(library):
        if section.name != ".nv_fatbin":
            continue
        fatbin = library[section.offset : section.offset + section.size]
        start = fatbin.find(b"\x7fELF\x02\x01")
        while start >= 0:
            image = fatbin[start:]
            with damage_reported():
                is_cubin = struct.unpack_from("<H", image, 18)[0] == _EM_CUDA
                length = _extent(image) if is_cubin else 0
            if is_cubin:
                yield image[:length]
            start = fatbin.find(b"\x7fELF\x02\x01", start + 1)


@contextlib.contextmanager
def damage_reported() -> Iterator[None]:
    """Turns whatever reading a damaged file raises into an ElfError."""
    try:
        yield
    except ElfError:
        raise
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise ElfError(f"the library is damaged: {error}") from error


def _extent(image: bytes) -> int:
    """The length of an ELF file that other bytes follow."""
    segments, table = struct.unpack_from("<QQ", image, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<4H", image, 54)
    ends: list[int] = [
        table + section_size * section_count,
        segments + segment_size * segment_count,
    ]
    ends += [one.offset + one.size for one in read_sections(image) if one.kind != _NOBITS]
    return max(ends)


def symbol_table(data: bytes, sections: list[Section], index: int) -> list[Symbol]:
    """Reads one symbol table, the empty first entry included.

    Raises:
        ElfError: it reaches beyond the file.
    """
    with damage_reported():
        table = sections[index]
        strings = sections[table.link].offset
        symbols: list[Symbol] = []
        for offset in range(table.offset, table.offset + table.size, 24):
            name, info, _, section, address, size = struct.unpack_from("<IBBHQQ", data, offset)
            text = _text(data, strings + name)
            symbols.append(Symbol(text, info & 15, info >> 4, section, address, size))
        return symbols


def initialiser_addresses(data: bytes) -> tuple[int, ...]:
    """Addresses of the functions that run when a library is loaded, in order.

    Raises:
        ElfError: the library is damaged.
    """
    with damage_reported():
        sections = read_sections(data)
        kinds = (_PREINIT_ARRAY, _INIT_ARRAY)
        return tuple(_array(data, sections, _relocated(data, sections), kinds))


def _symbols(data: bytes, sections: list[Section], kind: int) -> Iterator[Symbol]:
    for index, table in enumerate(sections):
        if table.kind == kind:
            yield from symbol_table(data, sections, index)[1:]


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _needed(data: bytes, sections: list[Section]) -> Iterator[str]:
    for table in sections:
        if table.kind == _DYNAMIC:
            for offset in range(table.offset, table.offset + table.size, 16):
                tag, value = struct.unpack_from("<qQ", data, offset)
                if tag == _DT_NEEDED:
                    yield _text(data, sections[table.link].offset + value)


def _relocated(data: bytes, sections: list[Section]) -> dict[int, int]:
    """Maps addresses to the values that relative relocations put there."""
    machine = struct.unpack_from("<H", data, 18)[0]
    relocated: dict[int, int] = {}
    for table in sections:
        if table.kind == _RELA:
            for offset in range(table.offset, table.offset + table.size, 24):
                address, info, addend = struct.unpack_from("<QQq", data, offset)
                if info & 0xFFFFFFFF == _RELATIVE.get(machine):
                    relocated[address] = addend
    return relocated


def _array(
    data: bytes, sections: list[Section], relocated: dict[int, int], kinds: tuple[int, ...]
) -> Iterator[int]:
    """Yields the function addresses of the arrays of those kinds."""
    for array in sections:
        if array.kind in kinds:
            for index in range(0, array.size, 8):
                stored = struct.unpack_from("<Q", data, array.offset + index)[0]
                yield relocated.get(array.address + index, stored)


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()
