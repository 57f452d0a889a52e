"""Every instruction of the PTX ISA either runs or is refused by its name before anything runs."""

from pathlib import Path

import numpy as np
import pytest

from astra_kernels.simulator import InvalidPtx, SimulatorRefusal, UnsupportedPtx
from astra_kernels.simulator.lowering.lower import FAMILIES
from tests.simulator.handwritten import EXECUTOR, HEADER, load, module_of, run

LISTED = [
    line
    for line in (Path(__file__).parent / "ptx_isa.txt").read_text().splitlines()
    if not line.startswith("#")
]
REFUSED = [line.removeprefix("- ") for line in LISTED if line.startswith("- ")]
ISA = [line.removeprefix("- ") for line in LISTED]


def families():
    """First parts of the names of all instructions that are implemented in some form."""
    names = {name.split(".")[0] for name in EXECUTOR.operation_table().elementwise}
    return names | set(FAMILIES) | {"addc", "subc", "madc", "cp"}


@pytest.mark.parametrize("opcode", REFUSED)
def test_what_is_not_implemented_is_refused_by_name(opcode):
    body = f"  mov.u32 %r1, 0;\n  {opcode} %r0, %r1;"
    with pytest.raises(UnsupportedPtx) as refused:
        run(module_of(body), np.zeros(1, np.uint32))
    assert opcode in str(refused.value)
    assert refused.value.kernel == "k"


def test_every_instruction_of_the_isa_is_in_one_of_both_lists():
    assert len(ISA) == len(set(ISA)) > 150
    implemented = families()
    for opcode in ISA:
        assert opcode in REFUSED or opcode.split(".")[0] in implemented, opcode


@pytest.mark.parametrize(
    "text",
    [
        "add.sat.u32 %r0, %r1, %r2;",
        "add.rn.s32 %r0, %r1, %r2;",
        "fma.rn.oob.f16 %rs0, %rs1, %rs2, %rs3;",
        "ld.global.async.u32 %r0, [%rd0];",
        "ld.global.b128 %rd0, [%rd0];",
        "ld.global.v8.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%rd0];",
        "atom.global.cas.b128 %rd0, [%rd0], %rd1, %rd2;",
        "atom.global.add.f16 %rs0, [%rd0], %rs1;",
        "atom.global.min.f32 %f0, [%rd0], %f1;",
        "cvt.rs.f16x2.f32 %r0, %f0, %f1, %r1;",
        "cvt.rn.satfinite.e2m1x2.f32 %rs0, %f0, %f1;",
        "mov.b128 %rd0, {%rd1, %rd2};",
        "mov.u32 %r0, %pm0;",
        "mov.u32 %r0, %lanemask_xx;",
        "bar.sync 16;",
        "lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x3f, %p1;",
        "isspacep.shared::cluster %p0, %rd0;",
        "isspacep.const %p0, %rd0;",
        "call foo, (%r0);",
        "call (%r0), %rd1, (%r2), prototype;",
        "shfl.up.b32 %r0, %r1, 1, 0;",
        "vote.ballot.b32 %r0, %p0;",
        "redux.sync.max.f32 %f0, %f1, 0xffffffff;",
        "barrier.cluster.arrive.aligned;",
        "frobnicate.u32 %r0, %r1;",
    ],
)
def test_forms_that_are_not_implemented_are_refused_by_name(text):
    with pytest.raises(UnsupportedPtx) as refused:
        run(module_of("  " + text), np.zeros(1, np.uint32))
    assert text.split()[0].rstrip(";") in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "vote.sync.ballot.b32 %p0, %p1, 0xffffffff;",
        "vote.sync.all.pred %r0, %p1, 0xffffffff;",
        "shfl.sync.idx.b32 %p0, %r1, 0, 31, 0xffffffff;",
        "shfl.sync.idx.b32 %r0|%r2, %r1, 0, 31, 0xffffffff;",
        "match.all.sync.b32 %p0|%p1, %r0, 0xffffffff;",
        "activemask.b32 %p0;",
        "redux.sync.add.u32 %p0, %r1, 0xffffffff;",
        "bar.red.popc.u32 %p0, 0, %p1;",
        "bar.red.and.pred %r0, 0, %p1;",
        "elect.sync %p0|%p1, 0xffffffff;",
        "@%r0 add.u32 %r1, %r1, %r2;",
        "@%r0 bra DONE; DONE:",
        "cp.async.ca.shared.global [%r0], [%rd0], 5;",
        "cp.async.ca.shared.global [%r0], [%r1], 4;",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%p0}, [%r0];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0}, [%r0];",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2}, {%r0,%r1}, {%r2}, {%f0,%f1,%f2,%f3};",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%p0,%f1,%f2,%f3}, {%r0,%r1}, {%r2}, {%f0,%f1,%f2,%f3};",
        "st.global.u64 [%rd0], %r0;",
        "atom.global.add.u32 %rd0, [%rd1], %r0;",
    ],
)
def test_registers_of_a_width_that_an_instruction_does_not_take(text):
    with pytest.raises(UnsupportedPtx):
        run(module_of("  " + text), np.zeros(1, np.uint32))


@pytest.mark.parametrize(
    ("declarations", "reason"),
    [
        (".shared .align 4 .b8 big[50000];", "static shared memory"),
        (".local .align 4 .b8 big[1000000];", "local memory"),
        (".reg .b32 %q<4000000000>;", "registers"),
        (".shared .align 3 .b8 odd[12];", "alignment"),
        (".shared .align 4 .b8 big[999999999999999];", "bytes"),
    ],
)
def test_more_than_a_gpu_has_is_refused(declarations, reason):
    body = "  mov.u64 %rd1, big;" if "big" in declarations else ""
    with pytest.raises((InvalidPtx, UnsupportedPtx), match=reason):
        run(module_of(body, declarations=declarations), np.zeros(1, np.uint32))


def test_recursion_is_refused_clearly():
    function = (
        ".func (.param .b32 out) f (.param .b32 in)\n{\n .reg .b32 %r<4>;\n .param .b32 a; .param .b32 b;\n"
        " ld.param.u32 %r1, [in];\n st.param.b32 [a], %r1;\n call (b), f, (a);\n"
        " ld.param.b32 %r2, [b];\n st.param.b32 [out], %r2;\n ret;\n}\n"
    )
    body = "  .param .b32 x; .param .b32 y;\n  mov.u32 %r1, 3;\n  st.param.b32 [x], %r1;\n  call (y), f, (x);"
    with pytest.raises(UnsupportedPtx, match="recursion: f calls itself"):
        run(module_of(body, functions=function), np.zeros(1, np.uint32))


@pytest.mark.parametrize(
    "text", ["", "garbage", HEADER + ".visible .entry k(", HEADER + "}{", "\0\0"]
)
def test_text_that_is_no_ptx(text):
    with pytest.raises(SimulatorRefusal):
        load(text).kernel("k")
