"""Instruction mix: the parser on a listing whose counts are known, and the tool where it is there."""

import dataclasses

import pytest

from astra_kernels.languages.cuda.elf import embedded_cubins
from astra_kernels.languages.cuda.sass import (
    NotEstablished,
    instruction_class,
    instruction_mix,
    parse_listing,
)

LISTING = """
	.target	sm_90
//--------------------- .text._Z1kPf --------------------------
	.section	.text._Z1kPf,"ax",@progbits
_Z1kPf:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   ULDC.64 UR4, c[0x0][0x208] ;
        /*0020*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0030*/                   LDG.E.U16 R9, desc[UR4][R2.64+0x10] ;
        /*0040*/              @!P0 LDG.E R8, desc[UR4][R2.64+0x20] ;
        /*0050*/                   HFMA2.MMA R8, R8, R8, R8 ;
        /*0060*/              @!P1 MUFU.EX2 R4, R4 ;
        /*0070*/                   FFMA R7, R4, R5, R7 ;
        /*0080*/             @!UP0 UIADD3 UR4, UR4, 0x4, URZ ;
        /*0090*/                   SHFL.BFLY PT, R5, R8, 0x10, 0x1f ;
        /*00a0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*00b0*/              @!PT LDS RZ, [RZ] ;
        /*00c0*/                   STG.E.64 desc[UR4][R2.64], R8 ;
        /*00d0*/                   EXIT ;
.L_x_1:
        /*00e0*/                   BRA `(.L_x_1);
        /*00f0*/                   NOP;
	.section	.text._Z1mv,"ax",@progbits
        /*0000*/                   EXIT ;
"""


def test_counts_of_a_listing():
    mix, other = parse_listing(LISTING)
    assert (mix.kernel, mix.total) == ("_Z1kPf", 14)
    assert mix.global_load_bits == {16: 1, 32: 1, 128: 1}
    assert mix.global_store_bits == {64: 1}
    assert mix.opcodes["LDG.E.128.CONSTANT"] == 1
    assert mix.classes == {
        "barrier": 1,
        "branch": 2,
        "constant_load": 2,
        "fp16": 1,
        "fp32": 1,
        "global_load": 3,
        "global_store": 1,
        "mufu": 1,
        "shuffle": 1,
        "uniform": 1,
    }
    assert (other.kernel, other.opcodes) == ("_Z1mv", {"EXIT": 1})


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        ("HGMMA.64x64x16.F32", "tensor"),
        ("UTMALDG.2D", "async_copy"),
        ("REDG.E.ADD.F32", "atomic"),
        ("ULOP3.LUT", "uniform"),
        ("IMAD.MOV.U32", "integer"),
        ("XYZZY", "other"),
    ],
)
def test_classes(opcode, name):
    assert instruction_class(opcode) == name


def test_missing_tool_is_said(compile_text, launcher, toolchain):
    bare = dataclasses.replace(toolchain, nvdisasm=None)
    answer = instruction_mix(compile_text(launcher), bare)
    assert answer == NotEstablished("not established: nvdisasm is not installed")


def test_library_holds_one_cubin_a_unit(compile_text, launcher):
    cubins = list(embedded_cubins(compile_text(launcher).library.read_bytes()))
    holding = [cubin for cubin in cubins if b".text._Z5scale" in cubin]
    assert len(holding) == 1


def test_mix_of_a_known_kernel(compile_text, launcher, toolchain):
    if toolchain.nvdisasm is None:
        pytest.skip("nvdisasm is not installed")
    mixes = instruction_mix(compile_text(launcher), toolchain)
    (mix,) = mixes
    assert mix.kernel.startswith("_Z5scale")
    assert mix.global_load_bits == {32: 1} and mix.global_store_bits == {32: 1}
    assert mix.classes["fp16"] >= 1 and "fp32" not in mix.classes
