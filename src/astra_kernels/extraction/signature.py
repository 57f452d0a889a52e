"""What the parameters of an operator are: tensors, numbers, choices, the stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from astra_kernels.extraction.finding import Operator
from astra_kernels.extraction.syntax import Parameter, without_comments

Role = Literal["tensor", "optional", "float", "integer", "bool", "string", "stream", "unknown"]

_POINTED = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "nv_half": "float16",
    "nv_bfloat16": "bfloat16",
    "__nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "int": "int32",
    "int32_t": "int32",
    "uint32_t": "int32",
    "int64_t": "int64",
    "long": "int64",
    "int16_t": "int16",
    "int8_t": "int8",
    "uint8_t": "uint8",
    "bool": "bool",
}
"""Astra's element types; wider unsigned ones are passed as signed ones of the same size."""
_FLOATS = ("float", "double")
_INTEGERS = re.compile(r"(?:unsigned )?(?:int|long|size_t|u?int(?:32|64)_t)(?: int| long)*")
_OUT = re.compile(
    r"(?:^|_)(?:out|output|outputs|result|results|dst|merged|renorm|rope_out)(?:$|_|\d)|^(?:c|y|z|mask_logits)$"
)


@dataclass(frozen=True)
class Slot:
    """One parameter and what it is."""

    name: str
    role: Role
    dtype: str = ""
    """Of a tensor, where it is known; of a number, the type as definitions name it."""
    written: bool | None = None
    """Whether a tensor is written; None where neither type nor name says."""
    default: str = ""
    """The parameter's, as the source writes it."""


def slots(operator: Operator) -> tuple[Slot, ...]:
    """The parameters of an operator in order."""
    marks = _mutated(operator.schema)
    made = [_slot(p, operator) for p in operator.function.parameters]
    if len(marks) == len(made):
        made = [
            Slot(s.name, s.role, s.dtype, m) if s.role in ("tensor", "optional") else s
            for s, m in zip(made, marks, strict=True)
        ]
    return tuple(made)


def _slot(parameter: Parameter, operator: Operator) -> Slot:
    kind = parameter.type.replace("std::", "").replace("c10::", "")
    plain = re.sub(r"\b(?:const|__restrict__|__grid_constant__)\b|&", " ", kind)
    plain = " ".join(plain.split())
    body = without_comments(operator.function.text)
    if "Tensor" in plain:
        role: Role = "optional" if re.search(r"optional\s*<", plain, re.IGNORECASE) else "tensor"
        return Slot(parameter.name, role, _element(parameter.name, body), _written(parameter))
    if re.match(r"optional\s*<", plain):
        return Slot(parameter.name, "optional")
    if plain.lower() == "cudastream_t":
        return Slot(parameter.name, "stream")
    if plain.endswith("*"):
        dtype = _POINTED.get(plain.rstrip("* "), "") or _element(parameter.name, body)
        return Slot(parameter.name, "tensor", dtype, _written(parameter))
    if plain in _FLOATS:
        return Slot(parameter.name, "float", "float32" if plain == "float" else "float64")
    if plain == "bool":
        return Slot(parameter.name, "bool", default=parameter.default)
    if _INTEGERS.fullmatch(plain):
        wide = "64" in plain or "long" in plain or plain == "size_t"
        sign = "u" if plain.startswith("u") else ""
        width = f"{sign}int{64 if wide else 32}"
        return Slot(parameter.name, "integer", width, default=parameter.default)
    return Slot(parameter.name, "string" if plain in ("string", "String") else "unknown")


def _written(parameter: Parameter) -> bool | None:
    """What the type says, then what the name says."""
    if re.search(r"\bconst\b", parameter.type.partition("*")[0]):
        return False
    return True if "*" in parameter.type or _OUT.search(parameter.name) else None


def _element(name: str, body: str) -> str:
    """The type that a tensor's data are taken for."""
    for pattern in (
        rf"static_cast<\s*(?:const\s+)?([\w:]+)\s*(?:const\s*)?\*>\(\s*{name}\s*(?:\.value\(\))?\.data_ptr\(\)",
        rf"\b{name}\.(?:const_|mutable_)?data_ptr<\s*([\w:]+)\s*>",
        rf"reinterpret_cast<\s*(?:const\s+)?([\w:]+)\s*\*>\(\s*{name}(?:\.data_ptr\(\)|\))",
        rf"static_cast<\s*(?:const\s+)?([\w:]+)\s*\*>\(\s*{name}\s*\)",
    ):
        found = re.search(pattern, body)
        if found:
            return _POINTED.get(found[1].rpartition("::")[2], "")
    stated = re.search(rf"CHECK_INPUT_(?:AND_)?TYPE\(\s*{name}\s*,\s*dl_(\w+)\)", body)
    return stated[1] if stated else ""


def _mutated(schema: str) -> list[bool]:
    """By parameter, whether the schema says that it is written: `Tensor!` or `Tensor(a!)`."""
    inside = schema.partition("(")[2].rpartition("->")[0].rpartition(")")[0]
    parts = re.sub(r"\(\w+!\)", "!", inside).split(",") if inside.strip() else []
    return ["!" in part for part in parts if part.strip() != "*"]
