"""`wmma.load` and `wmma.store`, access by access as ptxas makes them of it.

Read off ptxas 13.0's machine code for compute_90, of every shape, type, layout and space; the test
`test_fragment_traffic.py` disassembles them again. Of a fragment's registers

- A and B in shared memory come by `ldmatrix`, where its matrices of 16-byte rows are the fragment's;
- elements that lie side by side in memory come together: those of a register, of accumulators two registers;
- 16-bit elements that do not are read along memory's rows and transposed between the lanes (`movmatrix`);
- all others come one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.simulator.lowering.fragment_layout import (
    RESULTS,
    SHAPES,
    Element,
    Shape,
    input_elements,
    register_count,
    result_elements,
    shape_of,
)
from astra_kernels.simulator.lowering.matrices import ALL_LANES, kind_of, move_rows, parts_of
from astra_kernels.simulator.lowering.memory import SPACES, address_of, items_of
from astra_kernels.simulator.lowering.microcode import (
    Constant,
    Kind,
    MemoryFields,
    MicroOp,
    Register,
    Space,
    ThreadValue,
    Value,
)
from astra_kernels.simulator.lowering.translate import Translator
from astra_kernels.simulator.ptx.operands import TYPE_BYTES
from astra_kernels.simulator.ptx.syntax import Instruction, Operand

_GROUP, _MEMBER = ThreadValue("lane / 4"), ThreadValue("lane % 4")
_ROW, _SECOND, _THIRD = (ThreadValue(name) for name in ("lane % 8", "lane / 8 % 2", "lane / 16"))


@dataclass(frozen=True)
class _Move:
    """What `wmma.load` and `wmma.store` share once their modifiers are read."""

    which: str
    row_major: bool
    shape: Shape
    space: Space
    type: str

    def registers(self) -> list[list[Element]]:
        if self.which in "ab":
            return input_elements(self.shape, self.which, self.type)
        return result_elements(self.shape, self.type)

    @property
    def strided_lines(self) -> bool:
        """Whether lines (rather than places in a line) are a stride apart in memory."""
        if self.which == "b" or (self.which in "cd" and self.shape.swapped):
            return not self.row_major
        return self.row_major

    @property
    def default_stride(self) -> int:
        columns = {"a": self.shape.k, "b": self.shape.n}.get(self.which, self.shape.n)
        rows = {"a": self.shape.m, "b": self.shape.k}.get(self.which, self.shape.m)
        return columns if self.row_major else rows

    @property
    def element_bytes(self) -> int:
        return TYPE_BYTES[self.type]

    @property
    def transposes(self) -> bool:
        """Whether registers hold neighbours of memory's other direction, which the warp then exchanges."""
        return not self.strided_lines and self.element_bytes == 2

    @property
    def matrices_at_once(self) -> int:
        """Registers that one `ldmatrix` fills; 0 where there is none."""
        if self.space != Space.SHARED or self.which not in "ab":
            return 0
        if self.element_bytes == 1:
            return 2 if self.strided_lines else 0
        return 4 if self.element_bytes == 2 else 0


class _Walk:
    """The addresses of a fragment's elements, by memory's rows and the places in them."""

    def __init__(self, t: Translator, base: Value, stride: Value, element_bytes: int) -> None:
        self._t = t
        self._bytes = element_bytes
        self._stride = t.temporary(Kind.LANES32)
        t.elementwise("mul.lo.u32", self._stride, stride, Constant(element_bytes, Kind.LANES32))
        self._base = base
        self._rows: dict[int, Value] = {}

    def step(self, count: Value, rows: int, places: int) -> None:
        """Move every lane's start by `count` times as many rows and places."""
        for distance, unit in ((rows, self._stride), (places, None)):
            if not distance:
                continue
            each: Value = Constant(distance * self._bytes, Kind.LANES32)
            if unit is not None:
                each = self._scaled(unit, distance)
            self._base = self._add(self._base, count, each)

    def _scaled(self, unit: Value, times: int) -> Value:
        if times == 1:
            return unit
        scaled = self._t.temporary(Kind.LANES32)
        self._t.elementwise("mul.lo.u32", scaled, unit, Constant(times, Kind.LANES32))
        return scaled

    def _add(self, base: Value, count: Value, step: Value) -> Value:
        wide = base.kind == Kind.LANES64
        out = self._t.temporary(base.kind)
        self._t.elementwise("mad.wide.u32" if wide else "mad.lo.u32", out, count, step, base)
        return out

    def at(self, row: int, place: int) -> tuple[Value, int]:
        """The address of what lane 0 has at this row and place, and what is added to it."""
        if row not in self._rows:
            count = Constant(row, Kind.LANES32)
            self._rows[row] = self._add(self._base, count, self._stride) if row else self._base
        return self._rows[row], place * self._bytes


def _read_move(t: Translator, instruction: Instruction) -> _Move:
    parts = instruction.parts
    spaces = [part for part in parts[7:-1] if part in SPACES]
    which = parts[2] if len(parts) > 2 else ""
    types = RESULTS.get(parts[-1], ("f32",)) if which in ("a", "b") else None
    well_formed = (
        len(parts) == 8 + len(spaces)
        and len(spaces) <= 1
        and parts[3:5] == ["sync", "aligned"]
        and parts[5] in ("row", "col")
        and which in {"load": ("a", "b", "c"), "store": ("d",)}.get(parts[1], ())
    )
    if not well_formed:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    name, ptx_type = parts[6], parts[-1]
    inputs = [ptx_type] if types else [i for i in SHAPES if ptx_type in RESULTS.get(i, ("f32",))]
    fitting = [i for i in inputs if name in SHAPES.get(i, ())]
    if not fitting:
        t.refuse(f"matrices of `.{ptx_type}` in the shape `{name}` are not implemented")
    space = SPACES[spaces[0]] if spaces else Space.GENERIC
    return _Move(which, parts[5] == "row", shape_of(t, name, fitting[0]), space, ptx_type)


def _walk(t: Translator, move: _Move, operands: list[Operand]) -> _Walk:
    """The addresses, from the operands `[p]` and, if given, the stride in elements."""
    base, offset = address_of(t, operands[0], move.space)
    if offset:
        moved = t.temporary(base.kind)
        name = "add.u64" if base.kind == Kind.LANES64 else "add.u32"
        mask = 2**64 - 1 if base.kind == Kind.LANES64 else 2**32 - 1
        t.elementwise(name, moved, base, Constant(offset & mask, base.kind))
        base = moved
    stride: Value = Constant(move.default_stride, Kind.LANES32)
    if len(operands) > 1:
        stride = t.value(operands[1], Kind.LANES32)
    return _Walk(t, base, stride, move.element_bytes)


def _start_lanes(walk: _Walk, move: _Move) -> None:
    """Where lane 0's element (0, 0) is in every lane."""
    parts = parts_of(move.type) if move.which in "ab" else 2
    if move.strided_lines or move.transposes:
        walk.step(_GROUP, 1, 0)
        walk.step(_MEMBER, 0, parts)
    else:
        walk.step(_MEMBER, parts, 0)
        walk.step(_GROUP, 0, 1)


def _place(move: _Move, element: Element) -> tuple[int, int]:
    """Memory's row and the place in it."""
    here = element.line, element.place
    return here if move.strided_lines else here[::-1]


def _access(
    walk: _Walk, move: _Move, element: Element, element_bytes: int, elements: int = 1
) -> tuple[Value, int, MemoryFields]:
    base, offset = walk.at(*_place(move, element))
    fields = MemoryFields(
        space=move.space,
        element_bytes=element_bytes,
        elements=elements,
        register_kind=Kind.LANES64 if element_bytes == 8 else Kind.LANES32,
    )
    return base, offset, fields


def _transposed(t: Translator, value: Value) -> Register:
    result = t.temporary(Kind.LANES32)
    t.emit(MicroOp("transpose_matrix", results=(result,), sources=(value, *[None] * 4, ALL_LANES)))
    return result


def translate_fragment_load(t: Translator, instruction: Instruction) -> None:
    """`wmma.load`."""
    move = _read_move(t, instruction)
    target, *rest = instruction.operands
    results = [t.result(item) for item in items_of(target)]
    registers = move.registers()
    if len(results) != register_count(move.which, move.type, len(registers)):
        t.refuse("a fragment of another number of registers")
    walk = _walk(t, move, rest)
    if move.matrices_at_once:
        loaded = _load_matrices(t, walk, move, registers)
    else:
        _start_lanes(walk, move)
        loaded = _load_registers(t, walk, move, registers)
    name = "move.64" if move.type == "f64" else "move.32"
    for index, result in enumerate(results):
        if result is not None:
            t.elementwise(name, result, loaded[index % len(loaded)])


def _load_matrices(
    t: Translator, walk: _Walk, move: _Move, registers: list[list[Element]]
) -> list[Register]:
    """Every lane names a row of 16 bytes: lane 8 i + j row j of the matrix in the group's register i."""
    size = min(move.matrices_at_once, len(registers))
    corners = [_place(move, elements[0]) for elements in registers]
    walk.step(_ROW, 1, 0)
    for lanes, index in ((_SECOND, 1), (_THIRD, 2)):
        if index < size:
            walk.step(lanes, corners[index][0] - corners[0][0], corners[index][1] - corners[0][1])
    loaded: list[Register] = []
    for corner in corners[::size]:
        group = tuple(t.temporary(Kind.LANES32) for _ in range(size))
        operation = MicroOp("load_matrices", results=group)
        move_rows(t, operation, walk.at(*corner), [], not move.strided_lines)
        loaded += group
    return loaded


def _load_registers(
    t: Translator, walk: _Walk, move: _Move, registers: list[list[Element]]
) -> list[Register]:
    def load(element: Element, element_bytes: int, elements: int = 1) -> tuple[Register, ...]:
        base, offset, fields = _access(walk, move, element, element_bytes, elements)
        parts = tuple(t.temporary(fields.register_kind) for _ in range(elements))
        t.emit(MicroOp("load", results=parts, sources=(base,), immediate=offset, memory=fields))
        return parts

    size = move.element_bytes
    if move.transposes:
        return [_transposed(t, load(elements[0], 4)[0]) for elements in registers]
    if move.strided_lines and _in_pairs(move, registers):
        return [part for pair in registers[::2] for part in load(pair[0], size, 2)]
    if move.strided_lines:
        return [load(elements[0], size * len(elements))[0] for elements in registers]
    return [
        _packed(t, [load(element, size)[0] for element in elements], 8 * size)
        for elements in registers
    ]


def _in_pairs(move: _Move, registers: list[list[Element]]) -> bool:
    return move.which in "cd" and len(registers[0]) == 1


def _packed(t: Translator, parts: list[Register], bits: int) -> Register:
    while len(parts) > 1:
        pairs = []
        for low, high in zip(parts[::2], parts[1::2], strict=True):
            pair = t.temporary(Kind.LANES32)
            t.elementwise(f"pack.{bits}", pair, low, high)
            pairs.append(pair)
        parts, bits = pairs, 2 * bits
    return parts[0]


def translate_fragment_store(t: Translator, instruction: Instruction) -> None:
    """`wmma.store`."""
    move = _read_move(t, instruction)
    address, source, *rest = instruction.operands
    kind = kind_of(move.type)
    values = [t.value(item, kind) for item in items_of(source)]
    registers = move.registers()
    if len(values) != len(registers):
        t.refuse("a fragment of another number of registers")
    walk = _walk(t, move, [address, *rest])
    _start_lanes(walk, move)
    size, together = move.element_bytes, 1
    if move.element_bytes == 2:
        size = 4
        values = [_transposed(t, value) for value in values] if move.transposes else values
    elif move.strided_lines:
        together = 2
    for index in range(0, len(values), together):
        element = registers[index][0]
        base, offset, fields = _access(walk, move, element, size, together)
        sources = (base, *values[index : index + together])
        t.emit(MicroOp("store", sources=sources, immediate=offset, memory=fields))
