"""Loads that ptxas leaves out: what is counted here against the machine code of the same PTX."""

import re

import numpy as np
import pytest

from tests.simulator.handwritten import HEADER, disassembled, module_of, run

# What lies between two loads of `form`, and how many loads are left of them.
ADDRESS, OTHER = "[%rd1]", "[%rd2+64]"
CASES = {
    "nothing": ("ld.global.u32", "add.s32 %r9, %r1, 7;", 1),
    "a clock": ("ld.global.u32", "mov.u32 %r9, %clock;", 1),
    "a shuffle": ("ld.global.u32", "shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;", 1),
    "a store": ("ld.global.u32", f"st.global.u32 {OTHER}, %r1;", 2),
    "a generic store": ("ld.global.u32", "st.u32 [%rd4+64], %r1;", 2),
    "a store past the read-only path": ("ld.global.nc.u32", f"st.global.u32 {OTHER}, %r1;", 1),
    "a store elsewhere": ("ld.global.u32", "st.shared.u32 [tile+64], %r1;", 1),
    "an atomic": ("ld.global.u32", f"red.global.add.u32 {OTHER}, %r1;", 2),
    "a barrier": ("ld.global.u32", "bar.sync 0;", 2),
    "a warp's barrier": ("ld.global.u32", "bar.warp.sync 0xffffffff;", 2),
    "a fence": ("ld.global.u32", "membar.gl;", 2),
    "volatile": ("ld.volatile.global.u32", "", 2),
    "relaxed": ("ld.relaxed.gpu.global.u32", "", 2),
    "bytes": ("ld.global.u8", "", 1),
    "generic": ("ld.u32", "", 1),
    "another address": ("ld.global.u32", "add.s64 %rd1, %rd1, 128;", 2),
}


def kernel(form, between):
    generic = form == "ld.u32"
    address = "[%rd3]" if generic else ADDRESS
    return module_of(
        "  ld.param.u64 %rd3, [p0];\n  ld.param.u64 %rd4, [p1];\n  mov.u32 %r5, %tid.x;\n"
        "  mul.wide.u32 %rd5, %r5, 4;\n  add.s64 %rd3, %rd3, %rd5;\n  add.s64 %rd4, %rd4, %rd5;\n"
        "  cvta.to.global.u64 %rd1, %rd3;\n  cvta.to.global.u64 %rd2, %rd4;\n  mov.u32 %r9, 0;\n"
        f"  {form} %r1, {address};\n  {between}\n  {form} %r2, {address};\n"
        "  st.global.u32 [%rd2], %r1;\n  st.global.u32 [%rd2+128], %r2;\n"
        "  st.global.u32 [%rd2+256], %r9;",
        2,
        declarations="  .shared .align 16 .b8 tile[256];",
    )


@pytest.mark.parametrize("case", CASES)
def test_what_is_left_is_counted(case):
    form, between, left = CASES[case]
    x, y = np.arange(64, dtype=np.uint32), np.zeros(128, np.uint32)
    launch = run(kernel(form, between), x, y)
    metrics = launch.counters.metrics
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == left
    bytes_read = 1 if form.endswith("u8") else 4
    sectors = (32 * 4 - 4 + bytes_read + 31) // 32
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == left * sectors
    shifted = 32 if case == "another address" else 0
    np.testing.assert_array_equal(y[32:64], x[shifted : shifted + 32])


def test_ptxas_leaves_as_many(toolchain, tmp_path):
    bodies = [
        kernel(form, between).removeprefix(HEADER).replace(".entry k(", f".entry k{number}(")
        for number, (form, between, _) in enumerate(CASES.values())
    ]
    listing = disassembled(toolchain, HEADER + "".join(bodies), tmp_path)
    found = {
        int(name): len(re.findall(r"\sLDG?\.E\S* R\d+, desc", code))
        for name, code in re.findall(r"\.text\.k(\d+):(.*?)\bBRA\b", listing, re.S)
    }
    assert found == {number: left for number, (_, _, left) in enumerate(CASES.values())}
