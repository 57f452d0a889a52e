"""`wmma`: matrices in fragments, as products of the shapes that `mma.sync` has.

PTX leaves open which lane holds which element of a fragment. Here it is the layout of the `mma.sync`
instructions that the fragment is made of, which is also what machine code for compute_80 and later shows;
fragments of f16 hold every element more than once, so the registers after the first copy repeat it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_kernels.simulator.lowering.matrices import kind_of, multiply, parts_of
from astra_kernels.simulator.lowering.memory import SPACES, address_of, items_of
from astra_kernels.simulator.lowering.microcode import (
    Constant,
    Kind,
    MatrixFields,
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

_INTEGERS = ("s8", "u8")
_SHAPES = {
    **dict.fromkeys(("f16", "bf16", *_INTEGERS), ("m16n16k16", "m32n8k16", "m8n32k16")),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
}
_RESULTS = {"f16": ("f16", "f32"), "s8": ("s32",), "u8": ("s32",), "f64": ("f64",)}
_GROUP, _MEMBER = ThreadValue("lane / 4"), ThreadValue("lane % 4")


@dataclass(frozen=True)
class _Element:
    """Where a fragment's element is: line and place of lane 0, those of others follow from the lane."""

    line: int
    place: int


@dataclass(frozen=True)
class _Shape:
    """A product of tiles, of which either A or B is several times as wide as an `mma.sync`'s.

    Attributes:
        m: Rows of A.
        n: Columns of B.
        k: Depth.
    """

    m: int
    n: int
    k: int

    @property
    def swapped(self) -> bool:
        """Whether the transposed product is computed: 8 by 32 as 32 by 8."""
        return (self.m, self.n) == (8, 32)

    @property
    def rows(self) -> int:
        """Of one tile."""
        return 8 if (self.m, self.n) == (8, 8) else 16

    @property
    def tall(self) -> int:
        """Tiles of the operand that takes the place of A."""
        return (self.n if self.swapped else self.m) // self.rows

    @property
    def flat(self) -> int:
        """Tiles of the operand that takes the place of B."""
        return (self.m if self.swapped else self.n) // 8


def _shape(t: Translator, name: str, ptx_type: str) -> _Shape:
    if name not in _SHAPES.get(ptx_type, ()):
        t.refuse(f"matrices of `.{ptx_type}` in the shape `{name}` are not implemented")
    m, n, k = (int(number) for number in re.findall(r"\d+", name))
    return _Shape(m, n, k)


def _input_elements(shape: _Shape, which: str, ptx_type: str) -> list[list[_Element]]:
    """Registers of fragment A or B, each with its elements along k."""
    tall = (which == "a") != shape.swapped
    parts = parts_of(ptx_type)
    lines = shape.rows if tall else 8
    count = lines * shape.k // 32 // parts
    halves = 2 if lines == 16 else 1
    return [
        [
            _Element(lines * tile + 8 * (index % halves), 4 * parts * (index // halves) + part)
            for part in range(parts)
        ]
        for tile in range(shape.tall if tall else shape.flat)
        for index in range(count)
    ]


def _result_elements(shape: _Shape, ptx_type: str) -> list[list[_Element]]:
    """Registers of the accumulator; lines are rows of the product that is computed."""
    parts = parts_of(ptx_type)
    elements = [
        _Element(shape.rows * tall + 8 * (index // 2), 8 * flat + index % 2)
        for tall in range(shape.tall)
        for flat in range(shape.flat)
        for index in range(shape.rows // 4)
    ]
    return [elements[start : start + parts] for start in range(0, len(elements), parts)]


def _register_count(which: str, ptx_type: str, natural: int) -> int:
    return 8 if which in "ab" and ptx_type == "f16" else natural


class _Walk:
    """The addresses of a fragment's elements."""

    def __init__(self, t: Translator, base: Value, stride: Value, element_bytes: int) -> None:
        self._t = t
        self._bytes = element_bytes
        self._stride = t.temporary(Kind.LANES32)
        t.elementwise("mul.lo.u32", self._stride, stride, Constant(element_bytes, Kind.LANES32))
        self._base = base
        self._lines: dict[int, Value] = {}

    def start(self, lane_line: Value, lane_place: Value, parts: int) -> None:
        """Where lane 0's element (0, 0) is in every lane."""
        step = Constant(parts * self._bytes, Kind.LANES32)
        self._base = self._add(self._add(self._base, lane_line, self._stride), lane_place, step)

    def _add(self, base: Value, count: Value, step: Value) -> Value:
        wide = base.kind == Kind.LANES64
        out = self._t.temporary(base.kind)
        self._t.elementwise("mad.wide.u32" if wide else "mad.lo.u32", out, count, step, base)
        return out

    def at(self, line: int, place: int) -> tuple[Value, int]:
        """The address of an element, and what is added to it."""
        if line not in self._lines:
            count = Constant(line, Kind.LANES32)
            self._lines[line] = self._add(self._base, count, self._stride) if line else self._base
        return self._lines[line], place * self._bytes


@dataclass(frozen=True)
class _Move:
    """What `wmma.load` and `wmma.store` share once their modifiers are read."""

    which: str
    row_major: bool
    shape: _Shape
    space: Space
    type: str

    def registers(self) -> list[list[_Element]]:
        if self.which in "ab":
            return _input_elements(self.shape, self.which, self.type)
        return _result_elements(self.shape, self.type)

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


def _read_move(t: Translator, instruction: Instruction) -> _Move:
    parts = instruction.parts
    spaces = [part for part in parts[7:-1] if part in SPACES]
    which = parts[2] if len(parts) > 2 else ""
    types = _RESULTS.get(parts[-1], ("f32",)) if which in ("a", "b") else None
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
    inputs = [ptx_type] if types else [i for i in _SHAPES if ptx_type in _RESULTS.get(i, ("f32",))]
    fitting = [i for i in inputs if name in _SHAPES.get(i, ())]
    if not fitting:
        t.refuse(f"matrices of `.{ptx_type}` in the shape `{name}` are not implemented")
    space = SPACES[spaces[0]] if spaces else Space.GENERIC
    return _Move(which, parts[5] == "row", _shape(t, name, fitting[0]), space, ptx_type)


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
    walk = _Walk(t, base, stride, _memory_bytes(move.type))
    parts = parts_of(move.type) if move.which in "ab" else 2
    if move.strided_lines:
        walk.start(_GROUP, _MEMBER, parts)
    else:
        scaled = t.temporary(Kind.LANES32)
        t.elementwise("mul.lo.u32", scaled, _MEMBER, Constant(parts, Kind.LANES32))
        walk.start(scaled, _GROUP, 1)
    return walk


def _memory_bytes(ptx_type: str) -> int:
    return TYPE_BYTES[ptx_type]


def _element_access(
    walk: _Walk, move: _Move, element: _Element, element_bytes: int
) -> tuple[Value, int, MemoryFields]:
    line, place = element.line, element.place
    base, offset = walk.at(line, place) if move.strided_lines else walk.at(place, line)
    fields = MemoryFields(
        space=move.space,
        element_bytes=element_bytes,
        register_kind=Kind.LANES64 if element_bytes == 8 else Kind.LANES32,
    )
    return base, offset, fields


def translate_fragments(t: Translator, instruction: Instruction) -> None:
    """`wmma.load`, `wmma.store` and `wmma.mma`."""
    steps = {"load": _translate_load, "store": _translate_store, "mma": _translate_product}
    step = steps.get(instruction.parts[1])
    if step is None:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    step(t, instruction)


def _translate_load(t: Translator, instruction: Instruction) -> None:
    move = _read_move(t, instruction)
    target, *rest = instruction.operands
    results = [t.result(item) for item in items_of(target)]
    registers = move.registers()
    if len(results) != _register_count(move.which, move.type, len(registers)):
        t.refuse("a fragment of another number of registers")
    walk = _walk(t, move, rest)
    loaded = [_load_register(t, walk, move, elements) for elements in registers]
    name = "move.64" if move.type == "f64" else "move.32"
    for index, result in enumerate(results):
        if result is not None:
            t.elementwise(name, result, loaded[index % len(loaded)])


def _load_register(t: Translator, walk: _Walk, move: _Move, elements: list[_Element]) -> Register:
    size = _memory_bytes(move.type)
    if move.strided_lines:  # the elements of a register lie side by side
        size *= len(elements)
        elements = elements[:1]
    parts: list[Register] = []
    for element in elements:
        base, offset, fields = _element_access(walk, move, element, size)
        part = t.temporary(fields.register_kind)
        t.emit(MicroOp("load", results=(part,), sources=(base,), immediate=offset, memory=fields))
        parts.append(part)
    bits = 8 * size
    while len(parts) > 1:
        pairs = []
        for low, high in zip(parts[::2], parts[1::2], strict=True):
            pair = t.temporary(Kind.LANES32)
            t.elementwise(f"pack.{bits}", pair, low, high)
            pairs.append(pair)
        parts, bits = pairs, 2 * bits
    return parts[0]


def _translate_store(t: Translator, instruction: Instruction) -> None:
    move = _read_move(t, instruction)
    address, source, *rest = instruction.operands
    kind = kind_of(move.type)
    values = [t.value(item, kind) for item in items_of(source)]
    registers = move.registers()
    if len(values) != len(registers):
        t.refuse("a fragment of another number of registers")
    walk = _walk(t, move, [address, *rest])
    for value, elements in zip(values, registers, strict=True):
        for index, element in enumerate(elements):
            base, offset, fields = _element_access(walk, move, element, _memory_bytes(move.type))
            part = value
            if len(elements) > 1:
                half = t.temporary(Kind.LANES32)
                t.elementwise(f"unpack.16.{index}", half, value)
                part = half
            t.emit(MicroOp("store", sources=(base, part), immediate=offset, memory=fields))


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
    shape = _shape(t, parts[6], a)
    saturates = "satfinite" in instruction.parts
    allowed = _RESULTS.get(a, ("f32",))
    if a != b or d not in allowed or c not in allowed or (saturates and d != "s32"):
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, *sources = instruction.operands
    operands = [
        [t.value(item, kind_of(ptx_type)) for item in items_of(source)]
        for source, ptx_type in zip(sources, (a, b, c), strict=True)
    ]
    counts = [
        _register_count("a", a, len(_input_elements(shape, "a", a))),
        _register_count("b", b, len(_input_elements(shape, "b", b))),
        len(_result_elements(shape, c)),
    ]
    results = [t.result(item) for item in items_of(target)]
    if [*map(len, operands)] != counts or len(results) != len(_result_elements(shape, d)):
        t.refuse("a fragment of another number of registers")
    if shape.swapped:
        operands[0], operands[1] = operands[1], operands[0]
    fields = MatrixFields(rows=shape.rows, depth=shape.k, types=(a, b, c, d), saturate=saturates)
    _multiply_tiles(t, shape, fields, results, operands)


def _multiply_tiles(
    t: Translator,
    shape: _Shape,
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
