"""Branches, barriers, exits, and exchange between the lanes of a warp."""

from __future__ import annotations

from astra_kernels.simulator.lowering.microcode import (
    FENCE,
    Constant,
    Kind,
    MemoryFields,
    MicroOp,
    Value,
)
from astra_kernels.simulator.lowering.translate import Translator, kind_of_type
from astra_kernels.simulator.ptx.syntax import Instruction, Label, Name, Operand, Pair

# The orders of these are those of warp_operations.cpp.
_SHUFFLES = ("up", "down", "bfly", "idx")
_VOTES = ("all", "any", "uni", "ballot")
_MATCHES = ("any", "all")
_REDUCTIONS = (
    "add.u32",
    "min.u32",
    "max.u32",
    "min.s32",
    "max.s32",
    "and.b32",
    "or.b32",
    "xor.b32",
)
_BARRIERS = 16
_BARRIER_REDUCTIONS = ("popc", "and", "or")


def translate_branch(t: Translator, instruction: Instruction) -> None:
    """`bra`."""
    (target,) = instruction.operands
    if not isinstance(target, Name) or instruction.opcode not in ("bra", "bra.uni"):
        t.refuse("a branch of this form")
    t.emit(MicroOp("branch", target=target.name))


def translate_branch_table(t: Translator, instruction: Instruction) -> None:
    """`brx.idx`: one comparison and branch for each target."""
    index, table = instruction.operands
    if not isinstance(table, Name) or table.name not in t.branch_targets or instruction.guard:
        t.refuse("a branch of this form")
    value = t.value(index, Kind.LANES32)
    for number, label in enumerate(t.branch_targets[table.name]):
        here = t.temporary(Kind.PRED)
        t.elementwise("setp.eq.u32", here, value, Constant(number, Kind.LANES32))
        t.emit(MicroOp("branch", target=label, guard=(here, False)))
    t.emit(MicroOp("trap"))


def translate_exit(t: Translator, instruction: Instruction) -> None:
    """`ret` and `exit` of a kernel."""
    t.emit(MicroOp("exit"))


def translate_trap(t: Translator, instruction: Instruction) -> None:
    """`trap`."""
    t.emit(MicroOp("trap"))


def translate_breakpoint(t: Translator, instruction: Instruction) -> None:
    """`brkpt`: without a debugger the hardware stops there as at a trap."""
    t.emit(MicroOp("trap"))


def translate_nothing(t: Translator, instruction: Instruction) -> None:
    """An instruction that orders, hints or waits for what is always so here."""
    t.emit(MicroOp("nop"))


def translate_fence(t: Translator, instruction: Instruction) -> None:
    """`fence` and `membar`: for the checks only, as every store is visible at once."""
    t.emit(MicroOp("nop", mode=FENCE))


def translate_grid_control(t: Translator, instruction: Instruction) -> None:
    """`griddepcontrol`: waiting for the kernel before this one; letting the next one start is a hint."""
    t.emit(MicroOp("grid_wait" if instruction.opcode == "griddepcontrol.wait" else "nop"))


def translate_barrier(t: Translator, instruction: Instruction) -> None:
    """`bar` and `barrier`: of a warp or of a block."""
    aligned = instruction.parts[0] == "bar" or "aligned" in instruction.parts
    parts = [part for part in instruction.parts[1:] if part not in ("cta", "aligned")]
    operands = list(instruction.operands)
    if parts == ["warp", "sync"]:
        _meet(t, MicroOp("warp_barrier"), [], operands[0])
    elif parts == ["sync"]:
        t.emit(MicroOp("barrier", sources=_barrier_sources(t, operands)))
    elif parts == ["arrive"]:
        t.emit(MicroOp("barrier_arrive", sources=_barrier_sources(t, operands)))
    elif parts[0] == "red" and parts[1] in _BARRIER_REDUCTIONS:
        result = t.result(operands.pop(0))
        predicate = t.value(operands.pop(), Kind.PRED)
        mode = 1 + _BARRIER_REDUCTIONS.index(parts[1])
        sources = (*_barrier_sources(t, operands), predicate)
        t.emit(MicroOp("barrier", results=(result,), sources=sources, mode=mode))
    else:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    t.operations[-1].memory = MemoryFields(order=0 if aligned else 1)


def _barrier_sources(t: Translator, operands: list[Operand]) -> tuple[Value | None, Value | None]:
    identity = t.value(operands[0], Kind.LANES32)
    if isinstance(identity, Constant) and identity.bits >= _BARRIERS:
        t.refuse(f"a barrier beyond the {_BARRIERS} that a block has")
    return identity, t.value(operands[1], Kind.LANES32) if len(operands) > 1 else None


def _meet(t: Translator, operation: MicroOp, sources: list[Value], members: Operand) -> None:
    """Emit an operation for which the lanes named by `members` come together."""
    padded: list[Value | None] = [*sources, *[None] * (5 - len(sources))]
    operation.sources = (*padded, t.value(members, Kind.LANES32))
    t.emit(operation)


def translate_shuffle(t: Translator, instruction: Instruction) -> None:
    """`shfl.sync`."""
    parts = instruction.parts
    if len(parts) != 4 or parts[1] != "sync" or parts[2] not in _SHUFFLES or parts[3] != "b32":
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, a, b, c, members = instruction.operands
    results = (
        (t.result(target.first), t.result(target.second))
        if isinstance(target, Pair)
        else (t.result(target), None)
    )
    operation = MicroOp("shuffle", results=results, mode=_SHUFFLES.index(parts[2]))
    _meet(t, operation, [t.value(operand, Kind.LANES32) for operand in (a, b, c)], members)


def translate_vote(t: Translator, instruction: Instruction) -> None:
    """`vote.sync`."""
    parts = instruction.parts
    if len(parts) != 4 or parts[1] != "sync" or parts[2] not in _VOTES:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, predicate, members = instruction.operands
    operation = MicroOp("vote", results=(t.result(target),), mode=_VOTES.index(parts[2]))
    _meet(t, operation, [t.value(predicate, Kind.PRED)], members)


def translate_match(t: Translator, instruction: Instruction) -> None:
    """`match.sync`."""
    parts = instruction.parts
    if len(parts) != 4 or parts[1] not in _MATCHES or parts[2] != "sync":
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, a, members = instruction.operands
    results = (
        (t.result(target.first), t.result(target.second))
        if isinstance(target, Pair)
        else (t.result(target), None)
    )
    kind = kind_of_type(parts[3])
    operation = MicroOp("match", results=results, mode=_MATCHES.index(parts[1]))
    operation.memory = MemoryFields(element_bytes=8 if kind == Kind.LANES64 else 4)
    _meet(t, operation, [t.value(a, kind)], members)


def translate_reduction(t: Translator, instruction: Instruction) -> None:
    """`redux.sync`."""
    name = ".".join(instruction.parts[2:]).replace("add.s32", "add.u32")
    if instruction.parts[1] != "sync" or name not in _REDUCTIONS:
        t.refuse(f"`{instruction.opcode}` is not implemented")
    target, a, members = instruction.operands
    operation = MicroOp("reduce", results=(t.result(target),), mode=_REDUCTIONS.index(name))
    _meet(t, operation, [t.value(a, Kind.LANES32)], members)


def translate_elect(t: Translator, instruction: Instruction) -> None:
    """`elect.sync`."""
    target, members = instruction.operands
    if not isinstance(target, Pair):
        t.refuse("an election of this form")
    results = (t.result(target.first), t.result(target.second))
    _meet(t, MicroOp("elect", results=results), [], members)


def translate_active_mask(t: Translator, instruction: Instruction) -> None:
    """`activemask`."""
    t.emit(MicroOp("active_mask", results=(t.result(instruction.operands[0]),)))


def place_label(t: Translator, label: Label) -> None:
    """Note where a label is.

    Raises:
        UnsupportedPtx: The label occurs twice.
    """
    if label.name in t.labels:
        t.refuse(f"the label {label.name} occurs twice")
    t.labels[label.name] = len(t.operations)
