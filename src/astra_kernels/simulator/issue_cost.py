"""What a PTX instruction becomes in machine code, in issue slots by pipe.

PTX is not what runs: ptxas expands divisions and drops moves. These are the usual translations by nvcc
13.0 for sm_90, read from its disassembly; a caller that has the kernel's own machine code passes the
factor by which the true number of instructions differs instead (`Resources.instruction_scale`).
"""

from __future__ import annotations

from dataclasses import replace

from astra_kernels.simulator.lowering.allocate import block_starts
from astra_kernels.simulator.lowering.microcode import Kind, Microcode, MicroOp, Register, Space

# Slots beside the special-function unit, and in it. A correctly rounded division is a reciprocal,
# its check, five fused steps and a guarded branch to the slow path.
_EXPANSIONS: dict[str, tuple[float, float]] = {
    "div.rn.f32": (9.0, 2.0),
    "div.rn.ftz.f32": (9.0, 2.0),
    "rcp.rn.f32": (8.0, 1.0),
    "sqrt.rn.f32": (10.0, 1.0),
    "sqrt.rn.ftz.f32": (10.0, 1.0),
    "div.full.f32": (4.0, 1.0),
    "div.full.ftz.f32": (3.0, 1.0),
    "div.approx.f32": (3.0, 1.0),
    "div.approx.ftz.f32": (1.0, 1.0),
    "ex2.approx.f32": (3.0, 1.0),
    "lg2.approx.f32": (3.0, 1.0),
    "rsqrt.approx.f32": (2.0, 1.0),
    "sqrt.approx.f32": (3.0, 1.0),
    "rcp.approx.f32": (2.0, 1.0),
    "div.rn.f64": (20.0, 1.0),
    "sqrt.rn.f64": (16.0, 1.0),
    "rcp.rn.f64": (12.0, 1.0),
}
_INTEGER_DIVISIONS = ("div.u32", "div.s32", "rem.u32", "rem.s32")
_FREE = ("move.", "unpack.", "unpack64.", "pack.", "zero_extend.", "narrow.")


def issue_slots(operation: MicroOp) -> tuple[float, float]:
    """Issue slots of one micro-operation: beside the special-function unit, and in it."""
    name = operation.operation
    if operation.handler != "elementwise":
        return (1.0, 0.0) if operation.counted and operation.handler != "nop" else (0.0, 0.0)
    if name in _EXPANSIONS:
        return _EXPANSIONS[name]
    if name.startswith(_FREE):
        return (0.0, 0.0)  # renamed registers, constants as operands, halves picked by modifiers
    if name in _INTEGER_DIVISIONS:
        return (16.0, 3.0)
    family = name.split(".")[0]
    if family in ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "rcp", "sqrt"):
        return (0.0, 2.0 if name.endswith("x2") else 1.0)
    if name in ("cvt.rn.f16.f32", "cvt.rn.bf16.f32"):
        return (0.5, 0.0)  # two of them pack one register
    if family == "cvt" and name.split(".")[1] in ("u64", "s64"):
        return (0.5, 0.0)
    result = operation.results[0]
    wide = result is not None and result.kind == Kind.LANES64 and not name.endswith("f64")
    return (2.0 if wide and family in ("add", "sub", "shl", "mul") else 1.0, 0.0)


# Clocks from an instruction to one that needs its result.
_ALU, _PREDICATE, _SPECIAL, _BRANCH, _SHARED, _SHUFFLE, _BARRIER = 4.0, 13.0, 18.0, 8.0, 29.0, 24.0, 30.0
_CHAINS: dict[str, float] = {
    "div.rn.f32": _SPECIAL + 5 * _ALU + 2 * _BRANCH,
    "rcp.rn.f32": 2 * _ALU + _PREDICATE + _SPECIAL + 3 * _ALU + 2 * _BRANCH,
    "sqrt.rn.f32": 2 * _ALU + _SPECIAL + 5 * _ALU + 2 * _BRANCH,
    "div.full.f32": _PREDICATE + 3 * _ALU + _SPECIAL,
    "div.approx.f32": _PREDICATE + 3 * _ALU + _SPECIAL,
    "ex2.approx.f32": _PREDICATE + 2 * _ALU + _SPECIAL,
    "lg2.approx.f32": _PREDICATE + 2 * _ALU + _SPECIAL,
    "rsqrt.approx.f32": _PREDICATE + 2 * _ALU + _SPECIAL,
    "sqrt.approx.f32": _PREDICATE + 3 * _ALU + _SPECIAL,
    "rcp.approx.f32": _PREDICATE + 2 * _ALU + _SPECIAL,
}
# Their slow path is a branch, and no instruction is moved over a branch.
_GUARDED = frozenset(
    name + ending
    for name in ("div.rn", "rcp.rn", "sqrt.rn")
    for ending in (".f32", ".ftz.f32", ".f64")
)


def result_clocks(operation: MicroOp) -> float:
    """Clocks until an instruction that needs the result can start; none for waits that `load_rounds` counts."""
    handler, name = operation.handler, operation.operation
    if handler == "branch":
        return _BRANCH
    if handler == "barrier":
        return _BARRIER
    if handler == "shuffle":
        return _SHUFFLE
    if handler == "load":
        return _SHARED if operation.memory.space == Space.SHARED else 0.0
    if handler != "elementwise" or name.startswith((*_FREE, "abs.", "neg.")):
        return 0.0
    clocks = _CHAINS.get(name.replace(".ftz", "") if ".rn" in name else name)
    if clocks is not None:
        return clocks
    if name in _INTEGER_DIVISIONS:
        return 2 * _SPECIAL + 2 * _PREDICATE + 12 * _ALU
    family = name.split(".")[0]
    if family in ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "rcp", "sqrt"):
        return _SPECIAL
    if family == "div":
        return _SPECIAL + _ALU
    return _PREDICATE if family == "setp" else _ALU


def chain_weights(microcode: Microcode) -> list[float]:
    """For each micro-operation, by how many clocks it lengthens its basic block's longest chain."""
    starts = set(block_starts(microcode))
    weights: list[float] = []
    ready: dict[Register, float] = {}
    earliest = longest = 0.0
    for index, operation in enumerate(microcode.operations):
        if index in starts:
            ready, earliest, longest = {}, 0.0, 0.0
        needed = [r for r in operation.sources if isinstance(r, Register)]
        if operation.guard is not None:
            needed.append(operation.guard[0])
        begin = max([earliest, *(ready.get(r, earliest) for r in needed)])
        end = begin + result_clocks(operation)
        for result in operation.results:
            if result is not None:
                ready[result] = end
        weights.append(max(0.0, end - longest))
        longest = max(longest, end)
        if operation.handler in ("barrier", "warp_barrier") or operation.operation in _GUARDED:
            earliest = longest
    return weights


_PREDICATED_AT_MOST = 8


def predicated(microcode: Microcode) -> Microcode:
    """The kernel with short branches turned into predicates, as ptxas does; indices stay the same."""
    operations, labels = list(microcode.operations), dict(microcode.labels)
    users = [o.target for o in operations if o.target is not None]
    for index, operation in enumerate(microcode.operations):
        name = operation.target
        if operation.handler != "branch" or operation.guard is None or name is None:
            continue
        end = microcode.labels[name]
        skipped = microcode.operations[index + 1 : end]
        inside = {microcode.labels[x] for x in users if x is not None}
        if (
            not 0 < sum(o.counted for o in skipped) <= _PREDICATED_AT_MOST
            or users.count(name) > 1
            or any(o.handler != "elementwise" or o.operation in _GUARDED for o in skipped)
            or any(index < x < end for x in inside)
        ):
            continue
        register, negated = operation.guard
        operations[index] = replace(operation, handler="nop", target=None)
        for at in range(index + 1, end):
            if operations[at].guard is None:
                operations[at] = replace(operations[at], guard=(register, not negated))
        labels = {label: x for label, x in labels.items() if label in users and label != name}
    return Microcode(operations, labels)
