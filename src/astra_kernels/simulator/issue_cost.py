"""What a PTX instruction becomes in machine code: issue slots by pipe, and clocks until its result.

PTX is not what runs: ptxas expands divisions, drops moves and turns short branches into predicates. These
are the usual translations by nvcc 13.0 for sm_90, read from its disassembly; a caller that has the
kernel's own machine code passes the factor by which the true number of instructions differs instead
(`Resources.instruction_scale`).
"""

from __future__ import annotations

from dataclasses import replace

from astra_kernels.simulator.lowering.allocate import block_starts
from astra_kernels.simulator.lowering.microcode import Kind, Microcode, MicroOp, Register, Space

# Slots beside the special-function unit, and in it. Correctly rounded operations are an approximation,
# fused steps that correct it, a check, and a branch around the slow path with its reconvergence.
_EXPANSIONS: dict[str, tuple[float, float]] = {
    "div.rn.f32": (8.0, 2.0),
    "div.rn.ftz.f32": (8.0, 2.0),
    "rcp.rn.f32": (9.0, 1.0),
    "rcp.rn.ftz.f32": (9.0, 1.0),
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
_FREE = (
    "move.",
    "unpack.",
    "unpack64.",
    "pack.",
    "zero_extend.",
    "narrow.",
    "abs.",
    "neg.",
    "and.pred",
)

# Clocks from an instruction to one that needs its result.
# Published for Volta to Hopper (PMC10448217, table 3).
_ARITHMETIC = 4.0
# Calibrated on the silu_and_mul rows of machines/h200_measured.json.
_PREDICATE = 13.0
_SPECIAL = 18.0
_BRANCH = 8.0
# Assumed: typical of the architecture, and no row tells them apart.
_SHARED = 29.0
_SHUFFLE = 24.0
_BARRIER = 30.0
# Ranges that the special-function unit does not cover are scaled into those that it does, and back.
_SCALED = _PREDICATE + 2 * _ARITHMETIC + _SPECIAL
_CHAINS = {
    "div.rn.f32": _SPECIAL + 5 * _ARITHMETIC + 2 * _BRANCH,
    "rcp.rn.f32": _PREDICATE + _SPECIAL + 5 * _ARITHMETIC + 2 * _BRANCH,
    "sqrt.rn.f32": _SPECIAL + 7 * _ARITHMETIC + 2 * _BRANCH,
    "div.full.f32": _SCALED + _ARITHMETIC,
    "div.approx.f32": _SCALED + _ARITHMETIC,
    "ex2.approx.f32": _SCALED,
    "lg2.approx.f32": _SCALED,
    "rsqrt.approx.f32": _SCALED,
    "sqrt.approx.f32": _SCALED + _ARITHMETIC,
    "rcp.approx.f32": _SCALED,
}
_DIVISION_BY_INTEGERS = 2 * _SPECIAL + 2 * _PREDICATE + 12 * _ARITHMETIC
# Guarded by a branch to a slow path, over which ptxas moves no instruction.
_GUARDED = tuple(
    f"{name}.rn{ending}"
    for name in ("div", "rcp", "sqrt")
    for ending in (".f32", ".ftz.f32", ".f64")
)
# Instructions that ptxas rather predicates than jumps over, at most.
_PREDICATED = 8


def issue_slots(operation: MicroOp) -> tuple[float, float]:
    """Issue slots of one micro-operation: beside the special-function unit, and in it."""
    name = operation.operation
    if operation.handler != "elementwise":
        free = operation.handler in ("nop", "grid_wait")
        return (1.0, 0.0) if operation.issued and not free else (0.0, 0.0)
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


def result_clocks(operation: MicroOp) -> float:
    """Clocks until an instruction that needs the result can start; global loads are not among them."""
    name = operation.operation
    if operation.handler != "elementwise":
        loads = operation.handler in ("load", "load_matrices")
        shared = loads and operation.memory.space == Space.SHARED
        by_handler = {"branch": _BRANCH, "shuffle": _SHUFFLE, "barrier": _BARRIER}
        return _SHARED if shared else by_handler.get(operation.handler, 0.0)
    if name.startswith(_FREE):
        return 0.0
    if name in _INTEGER_DIVISIONS:
        return _DIVISION_BY_INTEGERS
    plain = name.replace(".ftz", "") if ".rn" in name else name
    if plain in _CHAINS:
        return _CHAINS[plain]
    family = name.split(".")[0]
    if family in ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "rcp", "sqrt"):
        return _SPECIAL
    if family == "div":
        return _SPECIAL + _ARITHMETIC
    return _PREDICATE if family == "setp" else _ARITHMETIC


def chain_weights(microcode: Microcode) -> list[float]:
    """For each micro-operation, by how many clocks it lengthens its basic block's longest chain.

    Instructions of a basic block that do not depend on each other overlap. What comes after a barrier
    or a guarded operation waits for it.
    """
    starts = set(block_starts(microcode))
    weights: list[float] = []
    ready: dict[Register, float] = {}
    earliest = longest = 0.0
    for index, operation in enumerate(microcode.operations):
        if index in starts:
            ready, earliest, longest = {}, 0.0, 0.0
        needed = [source for source in operation.sources if isinstance(source, Register)]
        if operation.guard is not None:
            needed.append(operation.guard[0])
        begin = max([earliest, *(ready.get(register, earliest) for register in needed)])
        end = begin + result_clocks(operation)
        for result in operation.results:
            if result is not None:
                ready[result] = end
        weights.append(max(0.0, end - longest))
        longest = max(longest, end)
        if operation.handler in ("barrier", "warp_barrier") or operation.operation in _GUARDED:
            earliest = longest
    return weights


def predicated(microcode: Microcode) -> Microcode:
    """The kernel with its short branches turned into predicates; indices stay the same."""
    operations, labels = list(microcode.operations), dict(microcode.labels)
    targets = [o.target for o in microcode.operations if o.target is not None]
    entered = {microcode.labels[target] for target in targets}
    for index, operation in enumerate(microcode.operations):
        target = operation.target
        if operation.handler != "branch" or operation.guard is None or target is None:
            continue
        end = microcode.labels[target]
        skipped = microcode.operations[index + 1 : end]
        simple = all(o.handler == "elementwise" and o.operation not in _GUARDED for o in skipped)
        short = 0 < sum(o.counted for o in skipped) <= _PREDICATED
        if not (simple and short) or any(index < at < end for at in entered):
            continue
        register, negated = operation.guard
        operations[index] = replace(operation, handler="nop", target=None)
        for at in range(index + 1, end):
            operations[at] = replace(operations[at], guard=(register, not negated))
        if targets.count(target) == 1:
            labels = {name: at for name, at in labels.items() if at != end or name in targets}
            del labels[target]
    return Microcode(operations, labels)
