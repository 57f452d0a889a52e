"""Pages of ncu are read, and machine code is matched with the PTX that it came from."""

import gzip
import json

import pytest

from astra_kernels.devices.executed_sass import block_executions, executed_classes
from astra_kernels.devices.machine_code import machine_blocks, machine_code
from astra_kernels.simulator.executed import ExecutedBlock
from tests.simulator.validation.corpus import CHECKED
from tests.simulator.validation.counters import read_classes, read_metrics, source_tables
from tests.simulator.validation.programs import build_all
from tests.simulator.validation.simulated import run_points

RAW = (
    "==PROF== Connected\n"
    '"ID","Kernel Name","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","dram__bytes_read.sum"\n'
    '"","","","Kbyte"\n"0","k","513","1.5"\n"1","k","1,026","2"\n'
)
SOURCE = (
    '"Kernel Name","k(float *)"\n'
    '"#","Address","Source","Instructions Executed","Thread Instructions Executed"\n'
    '"1","0","      LDG.E.128 R4, desc[UR4][R2.64]","513","16416"\n'
    '"2","10","@!P0 FADD R1, R2, R3","1,000","5"\n"3","20","FMUL R1, R1, R2","24","5"\n'
)
# A loop that ptxas unrolled four times: the PTX has one load for each turn.
LISTING = """
\t.section\t.text.looped,"ax",@progbits
looped:
\t//## File "k.cu", line 2
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_0:
\t//## File "v.h", line 9 inlined at "k.cu", line 3
\t//## File "k.cu", line 3
        /*0010*/                   LDG.E R1, [R2] ;
        /*0020*/                   LDG.E R3, [R2+0x4] ;
        /*0030*/                   LDG.E R4, [R2+0x8] ;
        /*0040*/                   LDG.E R5, [R2+0xc] ;
        /*0050*/              @!P0 BRA `(.L_x_0) ;
\t//## File "k.cu", line 4
        /*0060*/                   STG.E [R2], R1 ;
        /*0070*/                   EXIT ;
.L_x_1:
        /*0080*/                   BRA `(.L_x_1);
        /*0090*/                   NOP;
"""
PTX = (
    ExecutedBlock(8, {("k.cu", 2, 2): 3}, {}, (1,)),
    ExecutedBlock(80, {("v.h", 9, 3): 4}, {("global_load_4", ("v.h", 9, 3)): 1}, (1, 2)),
    ExecutedBlock(8, {("k.cu", 4, 4): 2}, {("global_store_4", ("k.cu", 4, 4)): 1}, (3,)),
)


def test_an_unrolled_loop_runs_less_often():
    blocks = machine_blocks(LISTING)["looped"]
    assert [block.successors for block in blocks] == [(1,), (1, 2), (3,)]
    assert block_executions(blocks, PTX) == [8, 20, 8]
    classes = executed_classes(blocks, PTX)
    assert classes == {"move": 8, "global_load": 80, "branch": 28, "global_store": 8}


def test_pages_of_a_folder(tmp_path):
    (tmp_path / "first.raw.csv.gz").write_bytes(gzip.compress(RAW.encode()))
    (tmp_path / "first.source.csv.gz").write_bytes(gzip.compress(2 * SOURCE.encode()))
    (tmp_path / "first.launches.json").write_text(json.dumps(["a", "b"]))
    metrics = read_metrics(tmp_path)
    assert metrics["b"]["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 1026
    assert metrics["a"]["dram__bytes_read.sum"] == 1500
    assert read_classes(tmp_path)["a"] == {"global_load": 513, "fp32": 1024}
    # ncu 2025.3 prints every table twice.
    (tmp_path / "first.source.csv.gz").write_bytes(gzip.compress(4 * SOURCE.encode()))
    assert read_classes(tmp_path)["b"] == {"global_load": 513, "fp32": 1024}
    # A batch that was cut short is not guessed at.
    (tmp_path / "first.launches.json").write_text(json.dumps(["a", "b", "c"]))
    assert read_metrics(tmp_path) == {}


def test_a_page_without_counts_has_no_tables():
    assert source_tables("==ERROR== nothing\n") == []


@pytest.fixture(scope="module")
def elementwise(toolchain, build_cache):
    if toolchain.nvdisasm is None:
        pytest.skip("nvdisasm is not installed")
    return build_all(["elementwise"], toolchain, build_cache, 1, None)


def test_straight_code_runs_once_for_each_warp(toolchain, elementwise):
    code = machine_code(elementwise.built["elementwise"], toolchain)
    chosen = tuple(p for p in CHECKED if p.name.startswith("add_f16"))
    for here in run_points(elementwise, chosen):
        blocks = code[here.launch.kernel]
        warps = here.launch.blocks * here.launch.threads_per_block // 32
        # No warp leaves early at this size, so every instruction runs once in each.
        expected = warps * sum(len(block.opcodes) for block in blocks)
        total = sum(executed_classes(blocks, here.launch.counters.blocks).values())
        assert total == expected


SLOW = """
\t.section\t.text.divides,"ax",@progbits
\t//## File "k.cu", line 2
        /*0000*/                   FFMA R0, R1, R2, R3 ;
        /*0010*/               @P0 BRA `(.L_x_0) ;
        /*0020*/                   CALL.REL.NOINC `($divides$__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath) ;
        /*0030*/                   MOV R0, R4 ;
.L_x_0:
        /*0040*/                   BRA.DIV UR4, `(.L_x_2) ;
        /*0050*/                   SHFL.BFLY PT, R3, R0, 0x10, 0x1f ;
.L_x_1:
        /*0060*/                   EXIT ;
.L_x_2:
        /*0070*/                   WARPSYNC.COLLECTIVE R5, `(.L_x_3) ;
.L_x_3:
        /*0080*/                   SHFL.BFLY P0, R3, R0, 0x10, 0x1f ;
        /*0090*/                   ENDCOLLECTIVE ;
        /*00a0*/                   BRA `(.L_x_1) ;
$divides$__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath:
        /*00b0*/                   FADD R4, R0, R1 ;
        /*00c0*/                   RET.REL.NODEC R6 `(divides) ;
"""


def test_slow_paths_and_copies_for_diverged_warps_do_not_run():
    blocks = machine_blocks(SLOW)["divides"]
    line = ("k.cu", 2, 2)
    ran = block_executions(blocks, [ExecutedBlock(4, {line: 3}, {("shuffle", line): 1}, (1,))])
    opcodes = [o for block, times in zip(blocks, ran, strict=True) if times for o in block.opcodes]
    assert opcodes == ["FFMA", "BRA", "BRA.DIV", "SHFL.BFLY", "EXIT"]
    assert set(ran) == {0, 4}
