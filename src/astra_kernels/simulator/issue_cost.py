"""What a PTX instruction becomes in machine code, in issue slots by pipe.

PTX is not what runs: ptxas expands divisions and drops moves. These are the usual translations by nvcc
13.0 for sm_90, read from its disassembly; a caller that has the kernel's own machine code passes the
factor by which the true number of instructions differs instead (`Resources.instruction_scale`).
"""

from __future__ import annotations

from astra_kernels.simulator.lowering.microcode import Kind, MicroOp

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
