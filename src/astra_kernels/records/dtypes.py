"""Element types by the names that FlashInfer-Bench and SOL-ExecBench give them."""

from __future__ import annotations

from typing import Literal, get_args

DType = Literal[
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
]

DTYPES: tuple[str, ...] = get_args(DType)

_BYTES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
}


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of `dtype`."""
    return _BYTES.get(dtype, 1)


def is_floating(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type, fp8 included."""
    return dtype.startswith(("float", "bfloat"))
