"""Calls of the device's system functions: `vprintf` and `__assertfail`."""

from __future__ import annotations

from astra_kernels.simulator.lowering.microcode import (
    Constant,
    Kind,
    MemoryFields,
    MicroOp,
    Register,
    Space,
    Value,
)
from astra_kernels.simulator.lowering.translate import Translator
from astra_kernels.simulator.ptx.syntax import Instruction, Name, Operand


def translate_system_call(t: Translator, instruction: Instruction) -> None:
    """What stands for the call: its parameters are read from the call's parameter space."""
    function = instruction.parts[1]
    if function == "vprintf":
        returned, format_text, arguments = instruction.operands
        count = t.temporary(Kind.LANES32)
        text, values = _parameter(t, format_text, 8), _parameter(t, arguments, 8)
        t.emit(MicroOp("print", results=(count,), sources=(text, values)))
        fields = MemoryFields(space=Space.LOCAL, element_bytes=4)
        t.emit(MicroOp("store", sources=(_place(t, returned), count), memory=fields))
    else:
        message, file, line, name, *_ = instruction.operands
        sources = tuple(
            _parameter(t, operand, size)
            for operand, size in ((message, 8), (file, 8), (line, 4), (name, 8))
        )
        t.emit(MicroOp("assert_fail", sources=sources))


def _place(t: Translator, operand: Operand) -> Value:
    if not isinstance(operand, Name) or operand.name not in t.frame.local:
        t.refuse("a parameter of this form")
    return Constant(t.frame.local[operand.name], Kind.LANES64)


def _parameter(t: Translator, operand: Operand, size: int) -> Register:
    kind = Kind.LANES64 if size == 8 else Kind.LANES32
    value = t.temporary(kind)
    fields = MemoryFields(space=Space.LOCAL, element_bytes=size, register_kind=kind)
    t.emit(MicroOp("load", results=(value,), sources=(_place(t, operand),), memory=fields))
    t.operations[-1].counted = False  # a parameter, as in a call of the module's own
    return value
