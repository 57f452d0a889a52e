"""Machine code written by hand, with the PTX it came from: how often each block runs."""

from astra_kernels.devices.executed_sass import block_executions
from astra_kernels.devices.machine_code import MachineBlock, machine_blocks
from astra_kernels.devices.reconvergence import arrivals
from astra_kernels.simulator.control_flow import ControlFlow
from astra_kernels.simulator.executed import ExecutedBlock

ONE = ("k.cu", 1, 1)


def line(number: int) -> tuple[str, int, int]:
    return ("k.cu", number, number)


def load(number: int) -> tuple[str, tuple[str, int, int]]:
    return ("global_load_4", line(number))


# One load a turn became a loop of four, and a loop for what is left.
UNROLLED = """
\t.section\t.text.unrolled,"ax",@progbits
\t//## File "k.cu", line 1
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/              @!P0 BRA `(.L_x_2) ;
\t//## File "k.cu", line 2
        /*0020*/                   ISETP.GE.AND P1, PT, R0, 0x4, PT ;
        /*0030*/              @!P1 BRA `(.L_x_1) ;
        /*0040*/                   MOV R9, RZ ;
.L_x_0:
\t//## File "k.cu", line 3
        /*0050*/                   LDG.E R1, [R2] ;
        /*0060*/                   LDG.E R3, [R2+0x4] ;
        /*0070*/                   LDG.E R4, [R2+0x8] ;
        /*0080*/                   LDG.E R5, [R2+0xc] ;
        /*0090*/              @!P0 BRA `(.L_x_0) ;
.L_x_1:
\t//## File "k.cu", line 2
        /*00a0*/              @!P2 BRA `(.L_x_2) ;
        /*00b0*/                   MOV R9, RZ ;
.L_x_3:
\t//## File "k.cu", line 3
        /*00c0*/                   LDG.E R1, [R2] ;
        /*00d0*/               @P0 BRA `(.L_x_3) ;
.L_x_2:
\t//## File "k.cu", line 4
        /*00e0*/                   EXIT ;
"""


def turning(turns: int) -> list[ExecutedBlock]:
    """Four warps of five come to the loop."""
    return [
        ExecutedBlock(5, {ONE: 2}, {}, (1, 3)),
        ExecutedBlock(4, {line(2): 1}, {}, (2,)),
        ExecutedBlock(4 * turns, {line(3): 3}, {load(3): 1}, (2, 3)),
        ExecutedBlock(5, {line(4): 1}, {}, (4,)),
    ]


def test_an_unrolled_loop_and_the_turns_that_are_left():
    blocks = machine_blocks(UNROLLED)["unrolled"]
    # start, choice, before the wide loop, wide loop, choice, before the narrow one, narrow loop, end
    assert block_executions(blocks, turning(10)) == [5, 4, 4, 8, 4, 4, 8, 5]
    assert block_executions(blocks, turning(8)) == [5, 4, 4, 8, 4, 0, 0, 5]
    assert block_executions(blocks, turning(3)) == [5, 4, 0, 0, 4, 4, 12, 5]


# A path that is not taken, of the same source line as what is around it, with a loop on it.
REDUCED = """
\t.section\t.text.reduced,"ax",@progbits
\t//## File "k.cu", line 1
        /*0000*/                   LDG.E R1, [R2] ;
        /*0010*/                   IMAD R3, R1, R1, R1 ;
        /*0020*/              @!P0 BRA `(.L_x_2) ;
        /*0030*/                   SHF.R.U32.HI R4, RZ, 0x1, R3 ;
        /*0040*/                   LOP3.LUT R4, R4, 0x1, RZ, 0xc0, !PT ;
.L_x_1:
        /*0050*/                   LDG.E R5, [R4] ;
        /*0060*/                   IMAD R3, R5, R3, R3 ;
        /*0070*/               @P1 BRA `(.L_x_1) ;
        /*0080*/                   IMAD R3, R3, R3, R3 ;
        /*0090*/                   IMAD R3, R3, R3, R3 ;
.L_x_2:
        /*00a0*/                   STG.E [R2], R3 ;
        /*00b0*/                   EXIT ;
"""


def test_a_path_of_the_same_line_that_is_not_taken():
    store = ("global_store_4", ONE)
    ptx = [
        ExecutedBlock(8, {ONE: 4}, {load(1): 1}, (1, 4)),
        ExecutedBlock(0, {ONE: 2}, {}, (2,)),
        ExecutedBlock(0, {ONE: 3}, {load(1): 1}, (2, 3)),
        ExecutedBlock(0, {ONE: 3}, {}, (4,)),
        ExecutedBlock(8, {ONE: 2}, {store: 1}, (5,)),
    ]
    blocks = machine_blocks(REDUCED)["reduced"]
    assert block_executions(blocks, ptx) == [8, 0, 0, 0, 8]


def test_what_became_predicates_runs_always():
    listing = """
\t.section\t.text.predicated,"ax",@progbits
\t//## File "k.cu", line 1
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   ISETP.GE.AND P0, PT, R0, R1, PT ;
\t//## File "k.cu", line 2
        /*0020*/               @P0 LDG.E R1, [R2] ;
        /*0030*/               @P0 STG.E [R4], R1 ;
        /*0040*/                   EXIT ;
"""
    ptx = [
        ExecutedBlock(8, {ONE: 3}, {}, (1, 2)),
        ExecutedBlock(3, {line(2): 3}, {load(2): 1, ("global_store_4", line(2)): 1}, (2,)),
        ExecutedBlock(8, {line(3): 1}, {}, (3,)),
    ]
    assert block_executions(machine_blocks(listing)["predicated"], ptx) == [8]


# Lanes leave the loop one after the other and wait behind it.
WAITING = """
\t.section\t.text.waiting,"ax",@progbits
\t//## File "k.cu", line 1
        /*0000*/                   LDG.E R1, [R2] ;
        /*0010*/                   BSSY B0, `(.L_x_2) ;
.L_x_1:
\t//## File "k.cu", line 2
        /*0020*/                   IMAD R1, R1, 0x3, R1 ;
        /*0030*/               @P0 BRA `(.L_x_1) ;
        /*0040*/                   BSYNC B0 ;
.L_x_2:
\t//## File "k.cu", line 3
        /*0050*/                   STG.E [R2], R1 ;
        /*0060*/                   EXIT ;
"""


def test_each_part_of_a_warp_comes_to_where_it_waits():
    ptx = [
        ExecutedBlock(2, {ONE: 1}, {load(1): 1}, (1,)),
        ExecutedBlock(40, {line(2): 2}, {}, (1, 2), splits=11),
        ExecutedBlock(2, {line(3): 1}, {("global_store_4", line(3)): 1}, (3,)),
    ]
    assert block_executions(machine_blocks(WAITING)["waiting"], ptx) == [2, 40, 13, 2]


def test_no_more_parts_arrive_than_come_before():
    machine = [
        MachineBlock(opcodes=["BSSY", "BRA"], joins=["end"], successors=(1, 2)),
        MachineBlock(opcodes=["MOV"], successors=(2,)),
        MachineBlock(opcodes=["BSYNC"], successors=(3,)),
        MachineBlock(labels=["end"], opcodes=["EXIT"], successors=(4,)),
    ]
    flow = ControlFlow([block.successors for block in machine])
    assert arrivals(machine, flow, [8, 3, 8, 8], {0: 2}) == {2: 10}
    assert arrivals(machine, flow, [8, 3, 8, 8], {0: 900}) == {2: 11}
    assert arrivals(machine, flow, [8, 3, 8, 8], {3: 5}) == {2: 8}


# Two turns in one, with a branch in each that has nothing of its own that the PTX counts.
BRANCHED = """
\t.section\t.text.branched,"ax",@progbits
\t//## File "k.cu", line 1
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_0:
\t//## File "k.cu", line 3
        /*0010*/                   LDG.E R1, [R2] ;
        /*0020*/                   LDG.E R3, [R2+0x4] ;
        /*0030*/               @P0 BRA `(.L_x_1) ;
\t//## File "k.cu", line 4
        /*0040*/                   SHF.R.U32.HI R1, RZ, 0x1, R1 ;
        /*0050*/                   LOP3.LUT R1, R1, 0x1, RZ, 0xc0, !PT ;
.L_x_1:
\t//## File "k.cu", line 3
        /*0060*/               @P1 BRA `(.L_x_2) ;
\t//## File "k.cu", line 4
        /*0070*/                   SHF.R.U32.HI R3, RZ, 0x1, R3 ;
        /*0080*/                   LOP3.LUT R3, R3, 0x1, RZ, 0xc0, !PT ;
.L_x_2:
\t//## File "k.cu", line 5
        /*0090*/               @P2 BRA `(.L_x_0) ;
\t//## File "k.cu", line 6
        /*00a0*/                   EXIT ;
"""


def test_each_copy_of_what_is_inside_a_loop_runs_in_its_turns():
    ptx = [
        ExecutedBlock(4, {ONE: 1}, {}, (1,)),
        ExecutedBlock(32, {line(3): 2}, {load(3): 1}, (2, 3)),
        ExecutedBlock(12, {line(4): 2}, {}, (3,)),
        ExecutedBlock(32, {line(5): 2}, {}, (1, 4)),
        ExecutedBlock(4, {line(6): 1}, {}, (5,)),
    ]
    blocks = machine_blocks(BRANCHED)["branched"]
    assert block_executions(blocks, ptx) == [4, 16, 6, 16, 6, 16, 4]
