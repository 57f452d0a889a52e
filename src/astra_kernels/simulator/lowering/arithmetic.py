"""Arithmetic, logic, conversions, comparisons and moves."""

from __future__ import annotations

from astra_kernels.simulator.lowering.microcode import Constant, Kind, MicroOp, Register, Value
from astra_kernels.simulator.lowering.translate import Translator, kind_of_type, window_of
from astra_kernels.simulator.ptx.operands import TYPE_BYTES
from astra_kernels.simulator.ptx.syntax import Instruction, Literal, Name, Operand, Pair, Vector

_CLOCKS = {
    "%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
}  # fmt: skip
_UNPACK = {
    ("b16", 2): "unpack.8",
    ("b32", 2): "unpack.16",
    ("b32", 4): "unpack.8",
    ("b64", 2): "unpack.32",
    ("b64", 4): "unpack64.16",
}


def translate_elementwise(t: Translator, instruction: Instruction) -> None:
    """An instruction that the executor has under its own full name."""
    name = instruction.opcode
    if name not in t.table.elementwise:
        t.refuse(f"`{name}` is not implemented")
    result_kind, source_kinds = t.table.elementwise[name]
    target, *operands = instruction.operands
    if len(operands) != len(source_kinds):
        t.refuse(f"{len(operands)} operands where `{name}` has {len(source_kinds)}")
    sources = [t.value(operand, kind) for operand, kind in zip(operands, source_kinds, strict=True)]
    written = t.write(target, result_kind)
    t.elementwise(name, written, *sources)
    types = [part for part in instruction.parts if part in TYPE_BYTES]
    t.finish_write(target, written, signed=bool(types) and types[0].startswith("s"))


def translate_mov(t: Translator, instruction: Instruction) -> None:
    """`mov`: copies, symbols' addresses, packing and unpacking of vectors, clocks."""
    ptx_type = instruction.parts[-1]
    target, source = instruction.operands
    if len(instruction.parts) != 2 or ptx_type == "b128":
        t.refuse(f"`{instruction.opcode}` is not implemented")
    if isinstance(target, Vector):
        _unpack(t, ptx_type, target, source)
    elif isinstance(source, Vector):
        _pack(t, ptx_type, target, source)
    elif isinstance(source, Name) and source.name in _CLOCKS:
        _read_clock(t, target, source.name)
    else:
        kind = kind_of_type(ptx_type)
        written = t.write(target, kind)
        t.elementwise(_move(kind), written, t.value(source, kind))
        t.finish_write(target, written, signed=False)


def _move(kind: Kind) -> str:
    return {Kind.PRED: "move.pred", Kind.LANES32: "move.32", Kind.LANES64: "move.64"}[kind]


def _read_clock(t: Translator, target: Operand, name: str) -> None:
    register = t.result(target)
    ticks = t.temporary(Kind.LANES64)
    t.emit(MicroOp("clock", results=(ticks,)))
    if name.endswith("_hi"):
        high = t.temporary(Kind.LANES64)
        t.elementwise("shr.u64", high, ticks, Constant(32, Kind.LANES32))
        ticks = high
    if register is not None:
        narrow = register.kind == Kind.LANES32
        t.elementwise("narrow.64" if narrow else "move.64", register, ticks)


def _unpack(t: Translator, ptx_type: str, target: Vector, source: Operand) -> None:
    base = _UNPACK.get((ptx_type, len(target.items)))
    if base is None:
        t.refuse("unpacking into this many parts")
    value = t.value(source, kind_of_type(ptx_type))
    for index, item in enumerate(target.items):
        register = t.result(item)
        if register is not None:
            t.elementwise(f"{base}.{index}", register, value)


def _pack(t: Translator, ptx_type: str, target: Operand, source: Vector) -> None:
    bits = 8 * TYPE_BYTES[ptx_type] // len(source.items)
    parts: list[Value] = [t.value(item, _part_kind(bits)) for item in source.items]
    while len(parts) > 1:
        wide = 2 * bits
        if f"pack.{bits}" not in t.table.elementwise:
            t.refuse(f"packing parts of {bits} bits")
        pairs: list[Value] = []
        for low, high in zip(parts[::2], parts[1::2], strict=True):
            last = len(parts) == 2
            kind = _part_kind(wide)
            result = t.write(target, kind) if last else t.temporary(kind)
            t.elementwise(f"pack.{bits}", result, low, high)
            pairs.append(result)
        parts, bits = pairs, wide


def _part_kind(bits: int) -> Kind:
    return Kind.LANES64 if bits == 64 else Kind.LANES32


def translate_cvta(t: Translator, instruction: Instruction) -> None:
    """`cvta`: between a space's addresses and generic ones."""
    parts = [part for part in instruction.parts[1:] if part != "to"]
    space = parts[0].removesuffix("::cta")
    if space not in ("global", "shared", "local", "const", "param") or parts[-1] != "u64":
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, source = instruction.operands
    result = t.write(target, Kind.LANES64)
    value = t.value(source, Kind.LANES64)
    offset = Constant(window_of(space), Kind.LANES64)
    if not offset.bits:
        t.elementwise("move.64", result, value)
    else:
        t.elementwise("sub.u64" if "to" in instruction.parts else "add.u64", result, value, offset)


def translate_setp(t: Translator, instruction: Instruction) -> None:
    """`setp`, with its second result and its boolean combination."""
    parts = instruction.parts
    combine = next((part for part in parts[2:] if part in ("and", "or", "xor")), None)
    rest = [part for part in parts[1:] if part != combine]
    target, a, b, *others = instruction.operands
    if parts[-1] in ("f16x2", "bf16x2"):
        if not isinstance(target, Pair) or combine:
            t.refuse("a packed comparison of this form")
        for half, register in (("low", target.first), ("high", target.second)):
            _compare(t, ".".join(["setp", half, *rest]), t.result(register), a, b)
        return
    name = ".".join(["setp", *rest])
    first = target.first if isinstance(target, Pair) else target
    second = t.result(target.second) if isinstance(target, Pair) else None
    holds = t.result(first) if second is None and combine is None else t.temporary(Kind.PRED)
    _compare(t, name, holds, a, b)
    if holds is None or (second is None and combine is None):
        return
    fails = t.temporary(Kind.PRED)
    if second is not None:
        t.elementwise("not.pred", fails, holds)
    other = t.value(others[0], Kind.PRED) if combine else None
    for result, condition in ((t.result(first), holds), (second, fails)):
        if result is None:
            continue
        if other is None:
            t.elementwise("move.pred", result, condition)
        else:
            t.elementwise(f"{combine}.pred", result, condition, other)


def _comparison(t: Translator, parts: list[str], a: Operand, b: Operand) -> Register:
    holds = t.temporary(Kind.PRED)
    _compare(t, ".".join(["setp", *parts]), holds, a, b)
    return holds


_TRUE = {"u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}


def translate_set(t: Translator, instruction: Instruction) -> None:
    """`set`: a comparison whose result is a number. Packed halves are an operation of their own."""
    *modifiers, result_type, compared = instruction.parts[1:]
    if compared in ("f16x2", "bf16x2"):
        translate_elementwise(t, instruction)
        return
    combine = next((part for part in modifiers[1:] if part in ("and", "or", "xor")), None)
    rest = [part for part in modifiers if part != combine]
    if result_type not in _TRUE:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, a, b, *others = instruction.operands
    holds = _comparison(t, [*rest, compared], a, b)
    if combine is not None:
        t.elementwise(f"{combine}.pred", holds, holds, t.value(others[0], Kind.PRED))
    elif others:
        t.refuse("operands of another number")
    written = t.write(target, Kind.LANES32)
    yes, no = Constant(_TRUE[result_type], Kind.LANES32), Constant(0, Kind.LANES32)
    t.elementwise("select.32", written, yes, no, holds)
    t.finish_write(target, written, signed=result_type == "s32")


def translate_slct(t: Translator, instruction: Instruction) -> None:
    """`slct`: one of two values, by whether a third is not negative."""
    *modifiers, value_type, compared = instruction.parts[1:]
    if compared not in ("s32", "f32") or modifiers not in ([], ["ftz"]):
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, a, b, c = instruction.operands
    kind = kind_of_type(value_type)
    zero = Literal(0, 32 if compared == "f32" else 0)
    holds = _comparison(t, ["ge", *modifiers, compared], c, zero)
    written = t.write(target, kind)
    name = "select.64" if kind == Kind.LANES64 else "select.32"
    t.elementwise(name, written, t.value(a, kind), t.value(b, kind), holds)
    t.finish_write(target, written, signed=False)


def _compare(t: Translator, name: str, result: Register | None, a: Operand, b: Operand) -> None:
    if name not in t.table.elementwise:
        t.refuse(f"`{name}` is not implemented")
    if result is None:
        return
    kinds = t.table.elementwise[name][1]
    t.elementwise(name, result, t.value(a, kinds[0]), t.value(b, kinds[1]))


def translate_selp(t: Translator, instruction: Instruction) -> None:
    """`selp`: one of two values by a predicate."""
    target, a, b, predicate = instruction.operands
    kind = kind_of_type(instruction.parts[-1])
    if kind == Kind.PRED or len(instruction.parts) != 2:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    name = "select.64" if kind == Kind.LANES64 else "select.32"
    written = t.write(target, kind)
    t.elementwise(name, written, t.value(a, kind), t.value(b, kind), t.value(predicate, Kind.PRED))
    t.finish_write(target, written, signed=False)


def translate_createpolicy(t: Translator, instruction: Instruction) -> None:
    """`createpolicy`: a cache hint, which changes no result; the policy reads as zero."""
    register = t.result(instruction.operands[0])
    if register is not None:
        t.elementwise("move.64", register, Constant(0, Kind.LANES64))
