"""Traffic that depends on addresses at run time: atomic operations that meet, and generic addresses."""

import numpy as np
import pytest

from astra_kernels.simulator import Resources, load_machine, model_time_us
from tests.simulator.handwritten import module_of, run

H200 = load_machine("h200")
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"


def adding(offset, operation="add.u32", value="1"):
    """Every thread adds at the address that `offset`, instructions from its lane in %r1 to %r2, says."""
    return module_of(
        "  ld.param.u64 %rd1, [p0];\n  cvta.to.global.u64 %rd1, %rd1;\n  mov.u32 %r1, %laneid;\n"
        "  mov.u32 %r3, %ctaid.x;\n"
        f"  {offset}\n  mul.wide.u32 %rd2, %r2, 4;\n  add.s64 %rd1, %rd1, %rd2;\n"
        f"  red.global.{operation} [%rd1], {value};"
    )


@pytest.mark.parametrize(
    ("text", "passes", "busiest"),
    [
        # Words of four sectors, side by side.
        (adding("mov.u32 %r2, %r1;"), 4, 4),
        # Two words of a sector, sixteen lanes each: they take turns.
        (adding("and.b32 %r2, %r1, 1;"), 16, 16),
        # One word: ptxas sums up first what integers add, but not floats.
        (adding("mov.u32 %r2, 0;"), 1, 1),
        (adding("mov.u32 %r2, 0;", "add.f32", "0f3F800000"), 32, 32),
        # 256 bytes apart, so in another slice of L2 each.
        (adding("shl.b32 %r2, %r1, 6;"), 32, 1),
    ],
)
def test_passes_of_atomic_operations(text, passes, busiest):
    counters = run(text, np.zeros(4096, np.uint32)).counters
    assert (counters.atomic_passes, counters.busiest_atomic_passes) == (passes, busiest)


def test_a_second_launch_counts_anew():
    for _ in range(2):
        counters = run(adding("mov.u32 %r2, %r1;"), np.zeros(64, np.uint32), blocks=3).counters
        assert (counters.atomic_passes, counters.busiest_atomic_passes) == (12, 12)


def test_warps_that_change_one_address_wait_for_one_another():
    blocks, warps = 2000, 8
    one, many = (
        run(adding(offset), np.zeros(64 * blocks, np.uint32), threads=32 * warps, blocks=blocks)
        for offset in ("mov.u32 %r2, 0;", "shl.b32 %r2, %r3, 6;")
    )
    assert one.counters.busiest_atomic_passes == warps * blocks
    assert many.counters.busiest_atomic_passes == warps
    times = [model_time_us(launch, H200, Resources(16)) for launch in (one, many)]
    # An addition a clock in the slice that has the address, against one in each of 80.
    assert times[0] > warps * blocks / H200.clock_mhz > 2 * times[1]


@pytest.mark.parametrize("space", ["shared", "global"])
def test_generic_accesses_count_where_they_go(space):
    base = "mov.u64 %rd1, tile;\n  cvta.shared.u64 %rd1, %rd1;" if space == "shared" else ""
    launch = run(
        module_of(
            f"  ld.param.u64 %rd1, [p0];\n  {base}\n  mov.u32 %r1, %tid.x;\n"
            "  mul.wide.u32 %rd2, %r1, 4;\n  add.s64 %rd1, %rd1, %rd2;\n"
            "  st.u32 [%rd1], %r1;\n  bar.warp.sync 0xffffffff;\n  ld.u32 %r2, [%rd1];\n"
            "  add.u32 %r2, %r2, 1;\n  st.u32 [%rd1], %r2;",
            declarations="  .shared .align 16 .b8 tile[256];",
        ),
        np.zeros(64, np.uint32),
    )
    metrics = launch.counters.metrics
    shared = [metrics[WAVEFRONTS.format(op)] for op in ("ld", "st")]
    sectors = [metrics[GLOBAL.format("sectors", op)] for op in ("ld", "st")]
    requests = [metrics[GLOBAL.format("requests", op)] for op in ("ld", "st")]
    there = ([1, 2], [0, 0], [0, 0]) if space == "shared" else ([0, 0], [4, 8], [1, 2])
    assert (shared, sectors, requests) == there
