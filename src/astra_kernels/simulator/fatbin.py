"""NVIDIA fat binaries: finding the PTX in them.

The format is not documented by NVIDIA; the fields used here are those that `fatbinary` of CUDA 11 to 13
writes: a header (magic, version, header size, total size) and entries (kind, header size, payload
size, architecture, flags).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from astra_kernels.simulator.errors import CompressedFatbin

_MAGIC = 0xBA55ED50
_HEADER_BYTES = 16
_PTX_KIND = 1
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
    """
    magic, _, header_size, size = struct.unpack_from("<IHHQ", header)
    if magic != _MAGIC:
        raise CompressedFatbin("not a fat binary")
    return int(header_size + size)


def _entries(data: bytes) -> list[_Entry]:
    at, end = _HEADER_BYTES, total_size(data)
    entries = []
    while at + 48 <= end:
        kind, _, header_size, size = struct.unpack_from("<HHIQ", data, at)
        (architecture,) = struct.unpack_from("<I", data, at + 28)
        (flags,) = struct.unpack_from("<Q", data, at + 40)
        start = at + header_size
        payload = data[start : start + size]
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


def images(section: bytes) -> list[bytes]:
    """The fat binaries in a `.nv_fatbin` section, one for each translation unit."""
    found = []
    for start in re.finditer(re.escape(struct.pack("<I", _MAGIC)), section):
        size = total_size(section[start.start() : start.start() + _HEADER_BYTES])
        found.append(section[start.start() : start.start() + size])
    return found
