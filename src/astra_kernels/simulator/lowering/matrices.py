"""Products of matrices on tensor cores: `mma.sync`, and the instructions that load and store for them."""

from __future__ import annotations

import re

from astra_kernels.simulator.lowering.memory import address_of, items_of
from astra_kernels.simulator.lowering.microcode import (
    Constant,
    Kind,
    MatrixFields,
    MemoryFields,
    MicroOp,
    Register,
    Space,
    Value,
)
from astra_kernels.simulator.lowering.translate import Translator
from astra_kernels.simulator.ptx.syntax import Instruction

ALL_LANES = Constant(0xFFFFFFFF, Kind.LANES32)
_ROW_BYTES = 16  # of ldmatrix: eight halves
_TRANSPOSED = 8
_NARROW = {"f16": 16, "bf16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "tf32": 32, "f64": 64}
_FP8, _INT8 = frozenset({"e4m3", "e5m2"}), frozenset({"s8", "u8"})
# (rows, depth) by the type of A, and which results there are. PTX ISA, "Matrix multiply-accumulate"; the
# number of columns is 8 in all of them.
_SHAPES: dict[str, tuple[frozenset[tuple[int, int]], frozenset[str]]] = {
    "f16": (frozenset({(16, 8), (16, 16)}), frozenset({"f16", "f32"})),
    "bf16": (frozenset({(16, 8), (16, 16)}), frozenset({"f32"})),
    "tf32": (frozenset({(16, 4), (16, 8)}), frozenset({"f32"})),
    "s8": (frozenset({(8, 16), (16, 16), (16, 32)}), frozenset({"s32"})),
    "u8": (frozenset({(8, 16), (16, 16), (16, 32)}), frozenset({"s32"})),
    "e4m3": (frozenset({(16, 32)}), frozenset({"f32"})),
    "e5m2": (frozenset({(16, 32)}), frozenset({"f32"})),
    "f64": (frozenset({(8, 4), (16, 4), (16, 8), (16, 16)}), frozenset({"f64"})),
}


def parts_of(ptx_type: str) -> int:
    """How many elements of a matrix share one register."""
    return max(1, 32 // _NARROW.get(ptx_type, 32))


def kind_of(ptx_type: str) -> Kind:
    """The kind of register that holds elements of this type."""
    return Kind.LANES64 if ptx_type == "f64" else Kind.LANES32


def _compatible(a: str, b: str) -> bool:
    return a == b or {a, b} <= _FP8 or {a, b} <= _INT8


def translate_multiply(t: Translator, instruction: Instruction) -> None:
    """`mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32` and its like."""
    parts = instruction.parts
    kept = [part for part in parts if part != "satfinite"]
    shape = re.fullmatch(r"m(\d+)n8k(\d+)", kept[3]) if len(kept) == 10 else None
    known = kept[:3] == ["mma", "sync", "aligned"] and kept[4:6] == ["row", "col"]
    if shape is None or not known:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    d, a, b, c = kept[6:]
    rows, depth = int(shape[1]), int(shape[2])
    shapes, results = _SHAPES.get(a, (frozenset(), frozenset()))
    saturates = "satfinite" in parts
    if (rows, depth) not in shapes or d not in results or not _compatible(a, b) or c != d:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    if saturates and d != "s32":
        t.refuse("the modifier `.satfinite` is not implemented")
    fields = MatrixFields(rows=rows, depth=depth, types=(a, b, c, d), saturate=saturates)
    into, *sources = (items_of(operand) for operand in instruction.operands)
    types = (a, b, c)
    values = [
        [t.value(item, kind_of(ptx_type)) for item in items]
        for items, ptx_type in zip(sources, types, strict=True)
    ]
    multiply(t, fields, [t.result(item) for item in into], values)


def multiply(
    t: Translator, fields: MatrixFields, results: list[Register | None], values: list[list[Value]]
) -> None:
    """Emit one product after looking whether it has as many registers as it should."""
    if [len(results), *map(len, values)] != list(register_counts(fields)):
        t.refuse("matrices of other numbers of registers")
    flat = [value for matrix in values for value in matrix]
    operation = MicroOp("multiply_matrices", results=tuple(results), matrix=fields)
    operation.sources = (*[None] * 5, ALL_LANES, *flat)
    t.emit(operation)


def register_counts(fields: MatrixFields) -> tuple[int, int, int, int]:
    """Registers a lane of the result, of A, B and of the accumulator."""
    a, b, c, d = fields.types
    accumulators = fields.rows // 4
    return (
        accumulators // parts_of(d),
        fields.rows * fields.depth // 32 // parts_of(a),
        8 * fields.depth // 32 // parts_of(b),
        accumulators // parts_of(c),
    )


def _matrices(t: Translator, instruction: Instruction, family: str) -> tuple[int, bool]:
    """How many matrices move, and whether they are transposed on the way."""
    parts = [part for part in instruction.parts[1:] if part != "trans"]
    count = {"x1": 1, "x2": 2, "x4": 4}.get(parts[3]) if len(parts) == 6 else None
    spaces = ("shared", "shared::cta")
    if count is None or parts[:3] != ["sync", "aligned", "m8n8"] or parts[4] not in spaces:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    if parts[5] != "b16" or instruction.parts.count("trans") > 1:
        t.refuse(f"the {family} `{instruction.opcode}` is not implemented")
    return count, "trans" in instruction.parts


def translate_load_matrices(t: Translator, instruction: Instruction) -> None:
    """`ldmatrix`: eight lanes' rows of eight halves become one register of every lane."""
    count, transposed = _matrices(t, instruction, "load")
    target, address = instruction.operands
    registers = tuple(t.result(item) for item in items_of(target))
    if len(registers) != count:
        t.refuse("a vector of another length")
    operation = MicroOp("load_matrices", results=registers)
    move_rows(t, operation, address_of(t, address, Space.SHARED), [], transposed)


def translate_store_matrices(t: Translator, instruction: Instruction) -> None:
    """`stmatrix`."""
    count, transposed = _matrices(t, instruction, "store")
    address, data = instruction.operands
    values = [t.value(item, Kind.LANES32) for item in items_of(data)]
    if len(values) != count:
        t.refuse("a vector of another length")
    operation = MicroOp("store_matrices")
    move_rows(t, operation, address_of(t, address, Space.SHARED), values, transposed)


def move_rows(
    t: Translator,
    operation: MicroOp,
    address: tuple[Value, int],
    values: list[Value],
    transposed: bool,
) -> None:
    """Emit a `load_matrices` of as many matrices as it has results, or a `store_matrices` of `values`.

    Args:
        t: Where to.
        operation: What is completed and emitted.
        address: Of a row of 16 bytes in every lane, and what is added to it.
        values: A register for each matrix that is stored.
        transposed: Whether rows become columns.
    """
    base, offset = address
    count = len(values) or len(operation.results)
    padding: list[Value | None] = [None] * (4 - len(values))
    operation.sources = (base, *values, *padding, ALL_LANES)
    operation.immediate = offset
    operation.mode = count | (_TRANSPOSED if transposed else 0)
    operation.memory = MemoryFields(space=Space.SHARED, element_bytes=_ROW_BYTES)
    t.emit(operation)


def translate_transpose(t: Translator, instruction: Instruction) -> None:
    """`movmatrix`: one matrix of eight by eight halves, transposed between the lanes."""
    if instruction.opcode != "movmatrix.sync.aligned.m8n8.trans.b16":
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, source = instruction.operands
    operation = MicroOp("transpose_matrix", results=(t.result(target),))
    operation.sources = (t.value(source, Kind.LANES32), *[None] * 4, ALL_LANES)
    t.emit(operation)
