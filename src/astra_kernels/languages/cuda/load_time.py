"""What a library runs when it is loaded, told by what that code calls and not by its name.

The build links with `--emit-relocs`, so the relocations of machine code are still in the library and
name the target of every call, whatever the processor. nvcc accounts for one constructor for each `.cu`
file, which registers that file's own entry of `.nvFatBinSegment` and nothing else.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from astra_kernels.languages.cuda.elf import (
    Section,
    Symbol,
    damage_reported,
    initialiser_addresses,
    read_sections,
    symbol_table,
)
from astra_kernels.languages.cuda.findings import Finding

_RELA, _X86, _ARM = 4, 62, 183
_X86_DIRECT, _X86_INDIRECT, _ARM_CALLS = (2, 4), (9, 41, 42), (282, 283)
_FUNCTION, _SECTION = 2, 3
_WRAPPERS, _WRAPPER_BYTES = ".nvFatBinSegment", 24
_CRT_BYTES = 32
"""`.init` and `.fini` of the C runtime have 9 to 27 bytes; other code there runs on loading too."""
_ATEXIT_BYTES = 64

_REGISTERS = re.compile(r"__cudaRegister(FatBinary|LinkedBinary\w*)")
_REGISTRATION = re.compile(
    r"__cudaRegister\w+|__cudaInitModule|__nv_init_managed_rt\w*|__nv_save_fatbinhandle\w*"
    r"|atexit|__cxa_atexit|_Unwind_Resume"
)
_RUNTIME_NAME = re.compile(r"(__)?cuda[A-Z]\w*|cu[A-Z]\w+|__cxa_atexit|__cxa_finalize|dlsym|dlopen")
_DEVICE_LINKER = re.compile(r"__cudaRegisterLinkedBinary\w*")
_IOSTREAM = frozenset(("_ZNSt8ios_base4InitC1Ev", "__cxa_atexit"))
_QUIET = re.compile(
    r"__cxa_\w+|_Unwind_Resume|_Zn[wa]m\w*|_Zd[la]Pv\w*|mem(cpy|set|move)|malloc|free|strlen"
    r"|_ZNSt8ios_base4InitC1Ev|_ZNK?St7__cxx1112basic_string\w+|_ZSt\d+__throw_\w+|_ZNSt(6vector|3map)\w+"
)
_STATIC_OBJECTS = "_GLOBAL__sub_I_"


@dataclass(frozen=True, slots=True)
class Constructor:
    """A function that runs on loading.

    Attributes:
        name: its symbol; an address where it has none.
        calls: names of what it calls directly; an address where there is no name.
        wrappers: addresses of the fat binary wrappers that it refers to.
    """

    name: str
    calls: frozenset[str]
    wrappers: frozenset[int]

    @property
    def registers(self) -> bool:
        """Whether it registers a fat binary, as nvcc's constructors do."""
        return any(_REGISTERS.fullmatch(name) for name in self.calls)


@dataclass(frozen=True, slots=True)
class LoadTime:
    """What happens when a library is loaded.

    Attributes:
        constructors: in the order in which they run.
        startup_bytes: sizes of `.init` and `.fini`.
        own_runtime: functions that it defines itself under names of the CUDA or C runtime.
    """

    constructors: tuple[Constructor, ...]
    startup_bytes: tuple[int, ...]
    own_runtime: tuple[str, ...]


def read_load_time(data: bytes) -> LoadTime:
    """Reads what a library runs when it is loaded.

    Raises:
        ElfError: the library is damaged.
    """
    with damage_reported():
        code = _Code(data)
        return LoadTime(
            constructors=tuple(code.constructor(one) for one in initialiser_addresses(data)),
            startup_bytes=tuple(s.size for s in code.sections if s.name in (".init", ".fini")),
            own_runtime=tuple(code.own_runtime()),
        )


def load_time_findings(
    candidate: LoadTime, cuda_files: int, baseline: LoadTime | None
) -> Iterator[Finding]:
    """Yields what a candidate runs on loading beyond nvcc's registration.

    Args:
        candidate: what its library runs.
        cuda_files: number of its `.cu` files; nvcc makes one constructor for each.
        baseline: what the baseline's library runs, which is allowed.
    """
    seen: set[int] = set()
    registrations = 0
    known = _known(baseline)
    for one in candidate.constructors:
        finding = None
        if one.registers:
            registrations += 1
            finding = _registration(one, seen, surplus=registrations > cuda_files)
            seen |= one.wrappers
        elif one.name.startswith(_STATIC_OBJECTS):
            finding = _static_objects(one, known)
        elif one.name != "frame_dummy" and one.name not in known:
            reason = "it runs when the library is loaded and is not nvcc's: it registers no kernels"
            finding = Finding("load-time-code", one.name, "rejecting", reason)
        if finding is not None:
            yield finding
    if any(size > _CRT_BYTES for size in candidate.startup_bytes):
        reason = "there is more code in it than the C runtime's"
        yield Finding("load-time-code", ".init", "rejecting", reason)
    for name in candidate.own_runtime:
        if baseline is None or name not in baseline.own_runtime:
            reason = "the library defines for itself what the CUDA or C runtime provides"
            yield Finding("own-runtime", name, "rejecting", reason)


def _known(baseline: LoadTime | None) -> Mapping[str, frozenset[str]]:
    """Calls of the baseline's constructors; those of static objects under one name."""
    known: dict[str, frozenset[str]] = {}
    for one in baseline.constructors if baseline else ():
        name = _STATIC_OBJECTS if one.name.startswith(_STATIC_OBJECTS) else one.name
        if not one.registers:
            known[name] = known.get(name, frozenset()) | one.calls
    return known


def _registration(one: Constructor, seen: set[int], *, surplus: bool) -> Finding | None:
    other = sorted(name for name in one.calls if not _REGISTRATION.fullmatch(name))
    if other:
        reason = f"it looks like nvcc's registration, but calls {other[0]}"
    elif len(one.wrappers) != 1 or one.wrappers & seen:
        reason = "it looks like nvcc's registration, but not of one file's kernels"
    elif surplus:
        reason = "there are more registration constructors than .cu files"
    else:
        return None
    return Finding("load-time-code", one.name, "rejecting", reason)


def _static_objects(one: Constructor, known: Mapping[str, frozenset[str]]) -> Finding | None:
    if one.calls <= known.get(_STATIC_OBJECTS, frozenset()) and _STATIC_OBJECTS in known:
        return None
    if one.calls and one.calls <= _IOSTREAM:
        return None
    loud = sorted(name for name in one.calls if not _QUIET.fullmatch(name))
    if loud:
        reason = (
            f"an object outside functions is built when the library is loaded, and calls {loud[0]}; "
            "make it static inside a function"
        )
        return Finding("load-time-code", one.name, "rejecting", reason)
    reason = "objects with constructors are built when the library is loaded"
    return Finding("load-time-code", one.name, "suspicious", reason)


class _Code:
    """The functions of a library and what they refer to."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._machine = struct.unpack_from("<H", data, 18)[0]
        self.sections = read_sections(data)
        self._tables = {i: symbol_table(data, self.sections, i) for i in self._linked()}
        self._functions: dict[int, Symbol] = {}
        for table in self._tables.values():
            for symbol in table:
                if symbol.kind == _FUNCTION and symbol.section:
                    self._functions.setdefault(symbol.address, symbol)
        self._references = sorted(self._read_references(), key=lambda one: one[0])

    def _linked(self) -> set[int]:
        return {s.link for s in self.sections if _holds_code_relocations(s)}

    def constructor(self, address: int) -> Constructor:
        """What the function at an address calls, the part that the compiler set aside included."""
        function = self._functions.get(address)
        name = function.name if function else hex(address)
        calls: set[str] = set()
        wrappers: set[int] = set()
        waiting = [one for one in self._functions.values() if one.name == f"{name}.cold"]
        for part in (*waiting, *([function] if function else ())):
            self._collect(part, calls, wrappers)
        own = {name, f"{name}.cold"}
        if "atexit" in calls and not self._is_library_atexit():
            calls.add("an atexit of its own")
        return Constructor(name, frozenset(calls - own), frozenset(wrappers))

    def own_runtime(self) -> Iterator[str]:
        """Names of functions that belong to a runtime and are defined here."""
        for name in sorted({one.name for one in self._functions.values()}):
            if _RUNTIME_NAME.fullmatch(name) and not _DEVICE_LINKER.fullmatch(name):
                yield name

    def _is_library_atexit(self) -> bool:
        """The C library links a small `atexit` into every library; it calls `__cxa_atexit` alone."""
        found = [one for one in self._functions.values() if one.name == "atexit"]
        calls: set[str] = set()
        for one in found:
            self._collect(one, calls, set())
        small = all(one.size <= _ATEXIT_BYTES for one in found)
        return len(found) <= 1 and small and (not found or calls == {"__cxa_atexit"})

    def _collect(self, function: Symbol, calls: set[str], wrappers: set[int]) -> None:
        end = function.address + function.size
        for place, target, called, name in self._references:
            if function.address <= place < end:
                if called:
                    calls.add(name)
                elif self._is_wrapper(target):
                    wrappers.add(target)

    def _is_wrapper(self, address: int) -> bool:
        return any(
            s.name == _WRAPPERS and s.address <= address < s.address + s.size for s in self.sections
        )

    def _read_references(self) -> Iterator[tuple[int, int, bool, str]]:
        """Yields (place, target, is a call, name of the target) of each relocation of code."""
        texts = [s for s in self.sections if s.name.startswith(".text") and s.kind == 1]
        for table in self.sections:
            if not _holds_code_relocations(table):
                continue
            symbols = self._tables[table.link]
            for at in range(table.offset, table.offset + table.size, 24):
                place, info, addend = struct.unpack_from("<QQq", self._data, at)
                symbol = symbols[info >> 32]
                target = symbol.address + addend + (4 if self._machine == _X86 else 0)
                called = self._is_call(place, info & 0xFFFFFFFF, texts)
                yield place, target, called, self._name(symbol, target)

    def _name(self, symbol: Symbol, target: int) -> str:
        if symbol.kind != _SECTION:
            return symbol.name.partition("@")[0]
        function = self._functions.get(target)
        return function.name if function else hex(target)

    def _is_call(self, place: int, kind: int, texts: list[Section]) -> bool:
        if self._machine == _ARM:
            return kind in _ARM_CALLS
        text = next((t for t in texts if t.address <= place < t.address + t.size), None)
        if text is None or kind not in (*_X86_DIRECT, *_X86_INDIRECT):
            return False
        offset = text.offset + place - text.address
        before, opcode = self._data[offset - 2 : offset]
        near = opcode in (0xE8, 0xE9) or (before == 0x0F and 0x80 <= opcode <= 0x8F)
        return near or (kind in _X86_INDIRECT and before == 0xFF and opcode in (0x15, 0x25))


def _holds_code_relocations(section: Section) -> bool:
    return section.kind == _RELA and section.name.startswith((".rela.text", ".rela.init"))
