"""As much of ELF as is needed to look into a shared library without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_kernels.simulator.binary import Binary
from astra_kernels.simulator.errors import SimulatorRefusal

_DYNSYM = 11
_DYNAMIC = 6
_NEEDED = 1
_LOADED = 1  # a program header's kind


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
        self._file = Binary(data, name)
        if data[:6] != b"\x7fELF\x02\x01":
            raise SimulatorRefusal(f"{name} is not a 64-bit shared library")
        self._sections = self._read_sections()

    @classmethod
    def read(cls, path: Path) -> ElfFile:
        """Read a file."""
        return cls(path.read_bytes(), str(path))

    def _read_sections(self) -> list[_Section]:
        (start,) = self._file.unpack("<Q", 0x28)
        entry_size, count, names = self._file.unpack("<HHH", 0x3A)
        raw = [
            self._file.unpack("<IIQQQQIIQQ", start + index * entry_size) for index in range(count)
        ]
        if names >= count:
            raise self._file.damaged("it has no table of sections")
        name_table = raw[names][4]
        return [
            _Section(self._file.text(name_table + s[0]), s[1], s[4], s[5], s[6], s[7], s[9])
            for s in raw
        ]

    def check_whole(self) -> None:
        """Look whether all that a loader would map is in the file: it would end in SIGBUS.

        Raises:
            DamagedLibrary: It is not.
        """
        (start,) = self._file.unpack("<Q", 0x20)
        entry_size, count = self._file.unpack("<HH", 0x36)
        for index in range(count):
            kind, _, offset, _, _, size = self._file.unpack("<IIQQQQ", start + index * entry_size)
            if kind == _LOADED:
                self._file.take(offset, size)

    def section(self, name: str) -> bytes:
        """A section's bytes; empty when there is none of this name."""
        for section in self._sections:
            if section.name == name:
                return self._file.take(section.offset, section.size)
        return b""

    def section_infos(self, prefix: str) -> dict[str, int]:
        """The `info` fields of the sections whose names start with `prefix`, by the rest of the name."""
        return {
            section.name.removeprefix(prefix): section.info
            for section in self._sections
            if section.name.startswith(prefix)
        }

    def _strings_of(self, section: _Section) -> int:
        """Where the names start that a section's entries refer to."""
        if section.link >= len(self._sections):
            raise self._file.damaged(f"{section.name} refers to a section that is not there")
        return self._sections[section.link].offset

    def _entries_of(self, section: _Section, entry_size: int) -> range:
        if entry_size <= 0:
            raise self._file.damaged(f"the entries of {section.name} have no size")
        self._file.take(section.offset, section.size)
        return range(section.offset, section.offset + section.size, entry_size)

    def undefined_symbols(self) -> list[str]:
        """Names that must come from other libraries (weak ones excluded)."""
        names = []
        for section in self._sections:
            if section.kind != _DYNSYM:
                continue
            strings = self._strings_of(section)
            for at in self._entries_of(section, section.entry_size):
                name, info, _, index = self._file.unpack("<IBBH", at)
                if index == 0 and info >> 4 == 1:
                    names.append(self._file.text(strings + name))
        return names

    def needed_libraries(self) -> list[str]:
        """The libraries it asks the loader for."""
        names = []
        for section in self._sections:
            if section.kind != _DYNAMIC:
                continue
            strings = self._strings_of(section)
            for at in self._entries_of(section, 16):
                tag, value = self._file.unpack("<QQ", at)
                if tag == _NEEDED:
                    names.append(self._file.text(strings + value))
        return names
