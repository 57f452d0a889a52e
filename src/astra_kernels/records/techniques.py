"""Which techniques the machine code of a kernel proves, from its opcodes.

Opcodes are those of nvdisasm (CUDA Binary Utilities, "Instruction Set Reference").
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PROOFS: Mapping[str, str] = {
    "16-byte loads": r"LDG\.E\.([A-Z0-9.]*\.)?128\b",
    "8-byte loads": r"LDG\.E\.([A-Z0-9.]*\.)?64\b",
    "16-byte stores": r"STG\.E\.([A-Z0-9.]*\.)?128\b",
    "8-byte stores": r"STG\.E\.([A-Z0-9.]*\.)?64\b",
    "read-only loads": r"LDG\..*CONSTANT",
    "streaming accesses": r"(LDG|STG)\..*\b(EF|LU|NA)\b",
    "asynchronous copies": r"LDGSTS|UBLKCP|UTMALDG",
    "warp shuffles": r"SHFL",
    "warp reductions": r"REDUX|CREDUX",
    "fast exponential": r"MUFU\.EX2",
    "fast reciprocal": r"MUFU\.RCP",
    "fast reciprocal square root": r"MUFU\.RSQ",
    "packed half arithmetic": r"H(ADD2|MUL2)\b(?!\.F32)",  # HFMA2 also loads constants
    "tensor cores": r"[HIDQ]MMA|HGMMA",
    "atomics": r"ATOM|RED\b",
    "early launch of dependents": r"ACQBULK|PREEXIT",
}


def proven(mix: Mapping[str, int]) -> tuple[str, ...]:
    """Names of the techniques whose instructions are in a kernel.

    Args:
        mix: static instruction counts by opcode, as in `Passed.sass_mix`.
    """
    return tuple(
        name for name, opcode in _PROOFS.items() if any(re.match(opcode, found) for found in mix)
    )
