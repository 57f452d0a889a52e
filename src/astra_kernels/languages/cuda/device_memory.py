"""Device memory that a library keeps from call to call: `__device__` and `__managed__` variables.

Read from the machine code, where macros and templates cannot hide them. A few bytes may count blocks
that are done; kilobytes can hold results. Constant memory cannot be written by a kernel.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from astra_kernels.languages.cuda.elf import embedded_cubins, read_sections, symbol_table
from astra_kernels.languages.cuda.findings import Finding, Weight

_MOST_BYTES = 4096
_OBJECT, _SYMTAB = 1, 2
_GLOBAL = (".nv.global", ".nv.global.init")
_NO_VARIABLE = re.compile(r"\$str\w*|.*__PRETTY_FUNCTION__.*|.*__func__.*|.*__FUNCTION__.*")

_TAG = re.compile(r"__cpo|placeholders|4cuda3std")
"""Empty objects of CCCL's headers, which stand for functions."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A variable in device memory."""

    name: str
    size_bytes: int


def kept_variables(library: bytes) -> tuple[Kept, ...]:
    """The variables in the global memory of a library's kernels.

    Raises:
        ElfError: the library, or an image in it, is damaged.
    """
    return tuple(one for image in embedded_cubins(library) for one in _variables(image))


def device_memory_findings(
    candidate: Iterable[Kept], baseline: Iterable[Kept]
) -> Iterator[Finding]:
    """Yields a finding if more memory is kept than by the baseline; up to 4 KiB it is only suspicious.

    A table that the source calls constant lies in the same memory as any other variable, and machine code
    does not say that it is never written, so it counts as one.
    """
    kept = sorted(candidate, key=lambda one: one.size_bytes)
    size = sum(one.size_bytes for one in kept)
    if size <= sum(one.size_bytes for one in baseline):
        return
    reason = f"{size} bytes of device memory outlive a call, more than in the baseline"
    if size > _MOST_BYTES:
        reason += "; use a workspace, or __constant__ memory for a table"
    weight: Weight = "rejecting" if size > _MOST_BYTES else "suspicious"
    yield Finding("device-memory", kept[-1].name, weight, reason)


def _variables(image: bytes) -> Iterator[Kept]:
    sections = read_sections(image)
    for index, table in enumerate(sections):
        if table.kind != _SYMTAB:
            continue
        for symbol in symbol_table(image, sections, index):
            if symbol.kind != _OBJECT or not 0 < symbol.section < len(sections):
                continue
            name = sections[symbol.section].name
            tag = symbol.size == 1 and _TAG.search(symbol.name)
            if name in _GLOBAL and not tag and not _NO_VARIABLE.fullmatch(symbol.name):
                yield Kept(symbol.name, symbol.size)
