"""As much of ELF as is needed to look into a shared library without loading it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.simulator.errors import SimulatorRefusal

_DYNSYM = 11
_DYNAMIC = 6
_NEEDED = 1


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int
    entry_size: int


class ElfFile:
    """A 64-bit little-endian ELF file: a shared library, or a GPU's machine code.

    Args:
        data: The file's bytes.
        name: For messages.

    Raises:
        SimulatorRefusal: The bytes are no such file.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        if data[:6] != b"\x7fELF\x02\x01":
            raise SimulatorRefusal(f"{name} is not a 64-bit shared library")
        self._sections = self._read_sections()

    @classmethod
    def read(cls, path: Path) -> ElfFile:
        """Read a file."""
        return cls(path.read_bytes(), str(path))

    def _read_sections(self) -> list[_Section]:
        (start,) = struct.unpack_from("<Q", self._data, 0x28)
        entry_size, count, names = struct.unpack_from("<HHH", self._data, 0x3A)
        raw = [
            struct.unpack_from("<IIQQQQIIQQ", self._data, start + index * entry_size)
            for index in range(count)
        ]
        name_table = raw[names][4]
        return [
            _Section(self._string(name_table + s[0]), s[1], s[4], s[5], s[6], s[7], s[9])
            for s in raw
        ]

    def _string(self, at: int) -> str:
        return self._data[at : self._data.index(b"\0", at)].decode()

    def section(self, name: str) -> bytes:
        """A section's bytes; empty when there is none of this name."""
        for section in self._sections:
            if section.name == name:
                return self._data[section.offset : section.offset + section.size]
        return b""

    def section_infos(self, prefix: str) -> dict[str, int]:
        """The `info` fields of the sections whose names start with `prefix`, by the rest of the name."""
        return {
            section.name.removeprefix(prefix): section.info
            for section in self._sections
            if section.name.startswith(prefix)
        }

    def undefined_symbols(self) -> list[str]:
        """Names that must come from other libraries (weak ones excluded)."""
        names = []
        for section in self._sections:
            if section.kind != _DYNSYM:
                continue
            strings = self._sections[section.link].offset
            for at in range(section.offset, section.offset + section.size, section.entry_size):
                name, info, _, index = struct.unpack_from("<IBBH", self._data, at)
                if index == 0 and info >> 4 == 1:
                    names.append(self._string(strings + name))
        return names

    def needed_libraries(self) -> list[str]:
        """The libraries it asks the loader for."""
        names = []
        for section in self._sections:
            if section.kind != _DYNAMIC:
                continue
            strings = self._sections[section.link].offset
            for at in range(section.offset, section.offset + section.size, 16):
                tag, value = struct.unpack_from("<QQ", self._data, at)
                if tag == _NEEDED:
                    names.append(self._string(strings + value))
        return names
