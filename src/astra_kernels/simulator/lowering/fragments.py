"""`wmma`: matrices in fragments, as products of the shapes that `mma.sync` has."""

from __future__ import annotations

from astra_kernels.simulator.lowering.fragment_layout import (
    RESULTS,
    Shape,
    input_elements,
    register_count,
    result_elements,
    shape_of,
)
from astra_kernels.simulator.lowering.fragment_moves import (
    translate_fragment_load,
    translate_fragment_store,
)
from astra_kernels.simulator.lowering.matrices import kind_of, multiply, parts_of
from astra_kernels.simulator.lowering.memory import items_of
from astra_kernels.simulator.lowering.microcode import MatrixFields, Register, Value
from astra_kernels.simulator.lowering.translate import Translator
from astra_kernels.simulator.ptx.syntax import Instruction


def translate_fragments(t: Translator, instruction: Instruction) -> None:
    """`wmma.load`, `wmma.store` and `wmma.mma`."""
    steps = {
        "load": translate_fragment_load,
        "store": translate_fragment_store,
        "mma": _translate_product,
    }
    step = steps.get(instruction.parts[1])
    if step is None:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    step(t, instruction)


def _translate_product(t: Translator, instruction: Instruction) -> None:
    parts = [part for part in instruction.parts if part != "satfinite"]
    types = parts[7:]
    if types[1:] == ["f64", "f64", "f64", "rn"]:  # of f64 the rounding is named, and is this one
        types.pop()
    if len(types) == 2:  # f16 inputs are not named
        types = [types[0], "f16", "f16", types[1]]
    layouts = ("row", "col")
    well_formed = parts[2:4] == ["sync", "aligned"] and {parts[4], parts[5]} <= set(layouts)
    if len(types) != 4 or not well_formed:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    d, a, b, c = types
    shape = shape_of(t, parts[6], a)
    saturates = "satfinite" in instruction.parts
    allowed = RESULTS.get(a, ("f32",))
    if a != b or d not in allowed or c not in allowed or (saturates and d != "s32"):
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, *sources = instruction.operands
    operands = [
        [t.value(item, kind_of(ptx_type)) for item in items_of(source)]
        for source, ptx_type in zip(sources, (a, b, c), strict=True)
    ]
    counts = [
        register_count("a", a, len(input_elements(shape, "a", a))),
        register_count("b", b, len(input_elements(shape, "b", b))),
        len(result_elements(shape, c)),
    ]
    results = [t.result(item) for item in items_of(target)]
    if [*map(len, operands)] != counts or len(results) != len(result_elements(shape, d)):
        t.refuse("a fragment of another number of registers")
    if shape.swapped:
        operands[0], operands[1] = operands[1], operands[0]
    fields = MatrixFields(rows=shape.rows, depth=shape.k, types=(a, b, c, d), saturate=saturates)
    _multiply_tiles(t, shape, fields, results, operands)


def _multiply_tiles(
    t: Translator,
    shape: Shape,
    fields: MatrixFields,
    results: list[Register | None],
    operands: list[list[Value]],
) -> None:
    a, _, c, d = fields.types
    tall = shape.rows * shape.k // 32 // parts_of(a)
    flat = 8 * shape.k // 32 // parts_of(a)
    into, out_of = (shape.rows // 4 // parts_of(ptx_type) for ptx_type in (d, c))
    # A result may be the register of an accumulator or input that a later tile still reads.
    fresh: list[Register | None] = [t.temporary(kind_of(d)) for _ in results]
    for tile in range(shape.tall * shape.flat):
        row, column = divmod(tile, shape.flat)
        values = [
            operands[0][row * tall : (row + 1) * tall],
            operands[1][column * flat : (column + 1) * flat],
            operands[2][tile * out_of : (tile + 1) * out_of],
        ]
        multiply(t, fields, fresh[tile * into : (tile + 1) * into], values)
    name = "move.64" if d == "f64" else "move.32"
    for result, value in zip(results, fresh, strict=True):
        if result is not None and value is not None:
            t.elementwise(name, result, value)
