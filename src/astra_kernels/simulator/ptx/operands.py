"""Operands, types and declarations of PTX."""

from __future__ import annotations

import re
import struct

from astra_kernels.simulator.errors import InvalidPtx
from astra_kernels.simulator.ptx.syntax import (
    Address,
    Literal,
    Name,
    Not,
    Operand,
    Pair,
    Reference,
    Variable,
    Vector,
)

TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "e4m3x2": 2, "e5m2x2": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip

_ALIGNMENTS = frozenset({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096})
_LARGEST = 1 << 37  # bytes of a variable: more than any GPU has
IDENTIFIER = r"[%$A-Za-z_][\w$.]*"
_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)U?$")
_FLOAT32 = re.compile(r"0[fF][0-9a-fA-F]{8}$")
_FLOAT64 = re.compile(r"0[dD][0-9a-fA-F]{16}$")
_DECIMAL = re.compile(r"[+-]?\d+\.\d*([eE][+-]?\d+)?$")
_WITH_OFFSET = re.compile(r"(.+?)\s*([+-])\s*(0[xX][0-9a-fA-F]+|-?\d+)$")
_MASKED = re.compile(r"(0[xX][0-9a-fA-F]+)\s*\((.*)\)$")
_REFERENCE = re.compile(
    rf"(generic\s*\(\s*(?P<generic>{IDENTIFIER})\s*\)|(?P<plain>{IDENTIFIER}))"
    r"(\s*(?P<sign>[+-])\s*(?P<distance>0[xX][0-9a-fA-F]+|\d+))?$"
)
_DECLARATION = re.compile(
    r"(?P<before>.*?)\.(?P<type>[bufs]\d+|f16x2|bf16x2|bf16)\s+"
    rf"(?P<name>{IDENTIFIER})\s*(?P<dimensions>(\[\s*\d*\s*\])*)\s*(=\s*(?P<initial>.*))?$",
    re.DOTALL,
)


def split_operands(text: str) -> list[str]:
    """Split at the commas that are outside of all brackets."""
    parts: list[str] = []
    depth, start = 0, 0
    for at, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def parse_operand(text: str) -> Operand:
    """Parse one operand.

    Raises:
        InvalidPtx: The text is none of PTX's forms.
    """
    text = text.strip()
    if text.startswith("{"):
        return Vector(tuple(parse_operand(item) for item in split_operands(text[1:-1])))
    if text.startswith("["):
        return _parse_address(text[1:-1].strip())
    if text.startswith("!"):
        return Not(Name(text[1:].strip()))
    if "|" in text:
        first, _, second = text.partition("|")
        if "|" in second:
            raise InvalidPtx(f"operand {text!r}")
        return Pair(Name(first.strip()), Name(second.strip()))
    return _parse_scalar(text)


def _parse_scalar(text: str) -> Name | Literal:
    if _FLOAT32.match(text):
        return Literal(int(text[2:], 16), 32)
    if _FLOAT64.match(text):
        return Literal(int(text[2:], 16), 64)
    if _INTEGER.match(text):
        return Literal(int(text.rstrip("U"), 0))
    if _DECIMAL.match(text):
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(text)))
        return Literal(bits, 64)
    if re.fullmatch(IDENTIFIER, text):
        return Name(text)
    if offset := _WITH_OFFSET.match(text):
        distance = (-1 if offset[2] == "-" else 1) * int(offset[3], 0)
        if not -(2**31) <= distance < 2**32:
            raise InvalidPtx(f"offset {text!r}")
        return Name(offset[1].strip(), distance)
    raise InvalidPtx(f"operand {text!r}")


def _parse_address(text: str) -> Address:
    scalar = _parse_scalar(text)
    if isinstance(scalar, Name):
        return Address(Name(scalar.name), scalar.offset)
    return Address(scalar)


def parse_variable(text: str, space: str) -> Variable:
    """Parse a declaration such as `.shared .align 4 .b8 name[64] = {1, 2}`."""
    found = _DECLARATION.match(text.strip())
    if not found:
        raise InvalidPtx(f"declaration {text.strip()[:120]!r}")
    if found["type"] not in TYPE_BYTES:
        raise InvalidPtx(f"declaration of type .{found['type']}")
    element = TYPE_BYTES[found["type"]]
    vector = re.search(r"\.v([248])\b", found["before"])
    size = element * (int(vector[1]) if vector else 1)
    alignment = re.search(r"\.align\s+(\d+)", found["before"])
    if alignment and int(alignment[1]) not in _ALIGNMENTS:
        raise InvalidPtx(f"alignment {alignment[1]} of {found['name']}")
    for length in re.findall(r"\[\s*(\d*)\s*\]", found["dimensions"]):
        size *= int(length) if length else 0
    if size > _LARGEST:
        raise InvalidPtx(f"{found['name']} has {size} bytes")
    initial, references = _parse_initial(found["initial"], found["type"], size)
    return Variable(
        space=space,
        name=found["name"],
        size=size,
        alignment=int(alignment[1]) if alignment else element,
        initial=initial,
        external=".extern" in found["before"],
        references=references,
    )


def _parse_reference(word: str, element: int) -> Reference | None:
    """An address as an initial value: `name`, `generic(name)+8`, `0xff00(name)`; None for a number."""
    shift = 0
    if masked := _MASKED.match(word):
        mask = int(masked[1], 16)
        shift = (mask & -mask).bit_length() - 1
        if mask != ((1 << 8 * element) - 1) << shift:
            raise InvalidPtx(f"initial value {word!r}")
        word = masked[2].strip()
    found = _REFERENCE.match(word)
    if not found:
        return None
    sign = -1 if found["sign"] == "-" else 1
    offset = sign * int(found["distance"], 0) if found["distance"] else 0
    return Reference(found["generic"] or found["plain"], offset, shift, element)


def _parse_initial(
    text: str | None, element_type: str, size: int
) -> tuple[bytes | None, dict[int, Reference]]:
    if not text:
        return None, {}
    element = TYPE_BYTES[element_type]
    data = bytearray()
    references: dict[int, Reference] = {}
    for item in text.replace("{", " ").replace("}", " ").split(","):
        word = item.strip()
        if not word:
            continue
        if reference := _parse_reference(word, element):
            references[len(data)] = reference
            data += bytes(element)
            continue
        value = _parse_scalar(word)
        if not isinstance(value, Literal):
            raise InvalidPtx(f"initial value {word!r}")
        data += (value.bits & ((1 << 8 * element) - 1)).to_bytes(element, "little")
    return bytes(data).ljust(size, b"\0"), references
