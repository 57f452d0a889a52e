"""Additions over several words: `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`.

The condition code is one more predicate: the carry of the adder. A subtraction adds the complement and one, as
machine code does (`IADD3`), so that its flag says that nothing was borrowed, and `addc` after `sub.cc` adds just that.
A multiply-add is a product, and a sum with the flag.
"""

from __future__ import annotations

from astra_kernels.simulator.lowering.microcode import Constant, Kind, Register, Value
from astra_kernels.simulator.lowering.translate import Translator, kind_of_type
from astra_kernels.simulator.ptx.syntax import Instruction, Operand

_FLAG = Register("condition code", Kind.PRED)
_NO_CARRY, _CARRY = Constant(0, Kind.PRED), Constant(0xFFFFFFFF, Kind.PRED)
_FAMILIES = ("add", "addc", "sub", "subc", "mad", "madc")


def is_carry_chain(instruction: Instruction) -> bool:
    """Whether an instruction reads or writes the condition code."""
    parts = instruction.parts
    return parts[0] in _FAMILIES and (parts[0].endswith("c") or "cc" in parts)


def translate_carry_chain(t: Translator, instruction: Instruction) -> None:
    """One step of a chain."""
    parts = [part for part in instruction.parts if part != "cc"]
    ptx_type = parts[-1].replace("s", "u")
    kind = kind_of_type(ptx_type)
    target, *operands = instruction.operands
    values = [t.value(operand, kind) for operand in operands]
    if parts[0].startswith("mad") and parts[1] in ("lo", "hi"):
        product = t.temporary(kind)
        t.elementwise(f"mul.{parts[1]}.{parts[-1]}", product, values[0], values[1])
        values = [product, values[2]]
    elif len(parts) != 2:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    _step(t, instruction, ptx_type, target, values)


def _step(
    t: Translator, instruction: Instruction, ptx_type: str, target: Operand, values: list[Value]
) -> None:
    subtract = instruction.parts[0].startswith("sub")
    flag_in: Value = _CARRY if subtract else _NO_CARRY
    if instruction.parts[0].endswith("c"):
        flag_in = _FLAG
    if subtract:
        complement = t.temporary(values[1].kind)
        t.elementwise(f"not.b{ptx_type[1:]}", complement, values[1])
        values = [values[0], complement]
    flag_out = t.temporary(Kind.PRED)
    writes_flag = "cc" in instruction.parts
    if writes_flag:  # before the target is written, which may be one of the sources
        t.elementwise(f"chain.carry.{ptx_type}", flag_out, *values, flag_in)
    result = t.write(target, kind_of_type(ptx_type))
    t.elementwise(f"chain.add.{ptx_type}", result, *values, flag_in)
    if writes_flag:
        t.elementwise("move.pred", _FLAG, flag_out)
