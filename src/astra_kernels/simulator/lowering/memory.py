"""Loads, stores, atomics and asynchronous copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from astra_kernels.simulator.lowering.microcode import (
    ORDERS,
    Constant,
    Kind,
    MemoryFields,
    MicroOp,
    Parameter,
    Register,
    Space,
    Value,
)
from astra_kernels.simulator.lowering.translate import Translator, kind_of_type
from astra_kernels.simulator.ptx.operands import TYPE_BYTES
from astra_kernels.simulator.ptx.syntax import Address, Instruction, Literal, Name, Operand, Vector

SPACES = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "local": Space.LOCAL,
    "const": Space.CONSTANT,
    "param": Space.CONSTANT,
}
# Orders, scopes and cache policies: a host thread runs blocks one after the other or in turns, and every
# store is visible at once, so these change no result. The checks look at orders, not at scopes.
_WITHOUT_EFFECT = {
    "weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "cta", "gpu", "sys",
    "ca", "cg", "cs", "cv", "lu", "nc", "wb", "wt",
}  # fmt: skip
# A load with one of these sees what another block stores meanwhile, so a loop may wait by it.
_POLLING = {"relaxed", "acquire", "volatile", "cv"}
_SEEN_BY_OTHERS = (Space.GLOBAL, Space.GENERIC)
_CACHE_PREFIXES = ("L1::", "L2::")
_DISCARDED_BYTES = 128
_VECTORS = {"v2": 2, "v4": 4}


def _order(parts: Sequence[str]) -> int:
    """The bits of all orders among the parts of an instruction's name."""
    bits = [ORDERS[part] for part in parts if part in ORDERS]
    return max(bits, default=0)


class _Modifiers:
    """The parts between the opcode and the type, sorted."""

    def __init__(self, t: Translator, instruction: Instruction, known: frozenset[str]) -> None:
        self.space = Space.GENERIC
        self.elements = 1
        self.kept: list[str] = []
        self.hint = False
        *parts, self.type = instruction.parts[1:]
        for part in parts:
            if part in SPACES:
                self.space = SPACES[part]
            elif part in _VECTORS:
                self.elements = _VECTORS[part]
            elif part in known:
                self.kept.append(part)
            elif part.startswith(_CACHE_PREFIXES):
                self.hint = self.hint or part == "L2::cache_hint"
            elif part not in _WITHOUT_EFFECT:
                t.refuse(f"the modifier `.{part}` is not implemented")
        if self.type not in TYPE_BYTES or self.type == "b128":
            t.refuse(f"the type `.{self.type}` is not implemented")


def address_of(t: Translator, operand: Operand, space: Space) -> tuple[Value, int]:
    """The value that holds an address, and what is added to it.

    Raises:
        UnsupportedPtx: The operand is no address of this space.
    """
    if not isinstance(operand, Address):
        t.refuse("an address of this form")
    if isinstance(operand.base, Literal):
        return Constant(operand.base.bits & (2**64 - 1), Kind.LANES64), operand.offset
    name = operand.base.name
    if name in t.registers:
        base: Value = t.register(name)
        if base.kind == Kind.LANES32 and space not in (Space.SHARED, Space.LOCAL):
            t.refuse("a 32-bit address outside of shared memory")
        return base, operand.offset
    if name in t.frame.shared and space == Space.GENERIC:
        t.refuse("a generic access to a shared variable by name")
    return t.value(operand.base, Kind.LANES64), operand.offset


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """The parts of a vector, or an operand alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def translate_load(t: Translator, instruction: Instruction) -> None:
    """`ld`, `ldu`."""
    modifiers = _Modifiers(t, instruction, frozenset())
    target, address = instruction.operands[:2]
    registers = [t.result(item) for item in items_of(target)]
    if len(registers) != modifiers.elements:
        t.refuse("a vector of another length")
    signed = modifiers.type.startswith("s")
    size = TYPE_BYTES[modifiers.type]
    is_parameter = "param" in instruction.parts
    if is_parameter and isinstance(address, Address) and isinstance(address.base, Name):
        if address.base.name in t.frame.parameters:
            start = t.frame.parameters[address.base.name][0] + address.offset
            _load_parameter(t, registers, start, size, signed)
            return
        if address.base.name in t.frame.local:
            modifiers.space = Space.LOCAL
    base, offset = address_of(t, address, modifiers.space)
    fields = MemoryFields(
        space=modifiers.space,
        element_bytes=size,
        elements=modifiers.elements,
        sign_extend=signed,
        register_kind=_data_kind(t, registers, modifiers.type),
        order=_order(instruction.parts),
    )
    polls = modifiers.space in _SEEN_BY_OTHERS and not _POLLING.isdisjoint(instruction.parts)
    t.emit(
        MicroOp(
            "load",
            results=tuple(registers),
            sources=(base,),
            immediate=offset,
            memory=fields,
            polls=polls,
        )
    )
    t.operations[-1].counted &= not (is_parameter and modifiers.space == Space.LOCAL)


def _load_parameter(
    t: Translator, registers: list[Register | None], start: int, size: int, signed: bool
) -> None:
    for index, register in enumerate(registers):
        if register is not None:
            value = Parameter(start + index * size, size, signed, register.kind)
            name = "move.64" if register.kind == Kind.LANES64 else "move.32"
            t.elementwise(name, register, value)


def _data_kind(t: Translator, registers: list[Register | None], ptx_type: str) -> Kind:
    kinds = {register.kind for register in registers if register is not None}
    if not kinds:
        return kind_of_type(ptx_type)
    if len(kinds) > 1 or (kinds == {Kind.LANES32} and TYPE_BYTES[ptx_type] == 8):
        t.refuse("registers of these widths")
    return kinds.pop()


def translate_store(t: Translator, instruction: Instruction) -> None:
    """`st`."""
    modifiers = _Modifiers(t, instruction, frozenset())
    address, data = instruction.operands[:2]
    items = items_of(data)
    if len(items) != modifiers.elements:
        t.refuse("a vector of another length")
    registers = [
        t.register(item.name)
        for item in items
        if isinstance(item, Name) and item.name in t.registers
    ]
    kind = _data_kind(t, list(registers), modifiers.type)
    is_parameter = "param" in instruction.parts
    if is_parameter:
        modifiers.space = Space.LOCAL
    base, offset = address_of(t, address, modifiers.space)
    fields = MemoryFields(
        space=modifiers.space,
        element_bytes=TYPE_BYTES[modifiers.type],
        elements=modifiers.elements,
        register_kind=kind,
        order=_order(instruction.parts),
    )
    values = tuple(t.value(item, kind) for item in items)
    t.emit(MicroOp("store", sources=(base, *values), immediate=offset, memory=fields))
    t.operations[-1].counted &= not is_parameter


# Vectors of these are updated element by element; only each element's update is atomic (PTX ISA, "atom").
_VECTOR_ATOMICS = frozenset({"f32", "f16", "bf16", "f16x2", "bf16x2"})
_ATOMIC = frozenset({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", "noftz"})


def translate_atomic(t: Translator, instruction: Instruction) -> None:
    """`atom`, `red`."""
    modifiers = _Modifiers(t, instruction, _ATOMIC)
    name = ".".join([*modifiers.kept, modifiers.type])
    vector = modifiers.elements > 1
    if name not in t.table.atomics or (vector and modifiers.type not in _VECTOR_ATOMICS):
        t.refuse(f"the atomic `{name}` is not implemented")
    operands = list(instruction.operands)
    returns = instruction.parts[0] == "atom"
    if modifiers.hint:
        operands.pop()
    targets = [t.result(item) for item in items_of(operands.pop(0))] if returns else []
    items = items_of(operands[1]) if vector else tuple(operands[1:])
    expected = modifiers.elements if vector else 1 + ("cas" in modifiers.kept)
    if len(items) != expected or (returns and len(targets) != modifiers.elements):
        t.refuse("operands of another number")
    base, offset = address_of(t, operands[0], modifiers.space)
    kind = kind_of_type(modifiers.type)
    values = tuple(t.value(item, kind) for item in items)
    if any(target is not None and target.kind != kind for target in targets):
        t.refuse("a result of another width")
    fields = MemoryFields(
        space=modifiers.space,
        element_bytes=TYPE_BYTES[modifiers.type],
        elements=modifiers.elements,
        register_kind=kind,
        order=_order(instruction.parts) | ORDERS["relaxed"],
    )
    t.emit(
        MicroOp(
            "atomic",
            name,
            results=tuple(targets) or (None,),
            sources=(base, *values),
            immediate=offset,
            memory=fields,
            polls=any(targets) and modifiers.space in _SEEN_BY_OTHERS,
        )
    )


def translate_discard(t: Translator, instruction: Instruction) -> None:
    """`discard`: what a line of global memory holds is of no use any more."""
    address, size = instruction.operands
    if not isinstance(size, Literal) or size.bits != _DISCARDED_BYTES:
        t.refuse("a discard of this form")
    base, offset = address_of(t, address, Space.GLOBAL)
    t.emit(MicroOp("discard", sources=(base,), immediate=offset))


def translate_copy_async(t: Translator, instruction: Instruction) -> None:
    """`cp.async` between global and shared memory, its groups and waits."""
    parts = instruction.parts[2:]
    operands = instruction.operands
    if parts == ["commit_group"]:
        t.emit(MicroOp("copy_commit"))
    elif parts == ["wait_all"]:
        t.emit(MicroOp("copy_wait", immediate=-1))
    elif parts == ["wait_group"] and isinstance(operands[0], Literal) and operands[0].bits < 2**31:
        t.emit(MicroOp("copy_wait", immediate=operands[0].bits))
    elif parts[:1] in (["ca"], ["cg"]):
        _copy(t, instruction)
    else:
        t.refuse(f"`{instruction.opcode}` is not implemented")


def _copy(t: Translator, instruction: Instruction) -> None:
    for part in instruction.parts[3:]:
        if part not in SPACES and not part.startswith("L2::"):
            t.refuse(f"the modifier `.{part}` is not implemented")
    to, source, size, *rest = instruction.operands
    if "L2::cache_hint" in instruction.parts:
        rest = rest[:-1]
    if not isinstance(size, Literal) or not isinstance(source, Address):
        t.refuse("a copy of this form")
    limit: Value | None = None
    if rest:
        if isinstance(rest[0], Name) and t.registers.get(rest[0].name) == Kind.PRED:
            t.refuse("a copy that a predicate turns off")
        limit = t.value(rest[0], Kind.LANES32)
    target, target_offset = address_of(t, to, Space.SHARED)
    origin, origin_offset = address_of(t, source, Space.GLOBAL)
    fields = MemoryFields(space=Space.SHARED, element_bytes=size.bits)
    t.emit(
        MicroOp(
            "copy_async",
            sources=(target, origin, limit),
            immediate=target_offset,
            memory=replace(fields, copy_offset=origin_offset),
        )
    )
