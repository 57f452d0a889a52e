"""Counters that follow from first principles, or were read from Nsight Compute."""

from pathlib import Path

import numpy as np
import pytest

from astra_kernels.simulator import SimulatorOptions
from tests.simulator.conftest import SOURCES, random

LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
STORES = "l1tex__t_{}_pipe_lsu_mem_global_op_st.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"


def test_coalesced_16_byte_accesses(device, norms):
    rows, width = 16, 4096
    x, out = random((rows, 2 * width), np.float16), np.zeros((rows, width), np.float16)
    device.run(norms, "silu_and_mul", out, x, rows, width, 256)
    counters = device.launch.counters
    # A warp moves 32 * 16 bytes in a request: 16 sectors of 32 bytes.
    read, written = x.nbytes, out.nbytes
    assert counters.metrics[LOADS.format("requests")] == read // 512
    assert counters.metrics[LOADS.format("sectors")] == read // 32
    assert counters.metrics[STORES.format("requests")] == written // 512
    assert counters.metrics[STORES.format("sectors")] == written // 32
    assert (counters.dram_bytes_read, counters.distinct_bytes_written) == (read, written)


def test_a_row_read_twice_comes_from_dram_once(device, norms):
    x, w = random((4, 1024)), random(1024)
    device.run(norms, "rmsnorm", x, w, np.zeros_like(x), 4, 1024, 1e-5)
    counters = device.launch.counters
    # Both passes over x, and w in the second, at 4 bytes a lane: 4 sectors a request.
    assert counters.metrics[LOADS.format("requests")] == 3 * 4 * 1024 // 32
    assert counters.metrics[LOADS.format("sectors")] == 3 * 4 * 1024 // 8
    assert counters.dram_bytes_read == x.nbytes + w.nbytes
    assert counters.barriers == 2 * 4


@pytest.mark.parametrize(("pad", "ways"), [(0, 32), (1, 1)])
def test_bank_conflicts_of_a_transposed_tile(device, norms, pad, ways):
    x = random((64, 64))
    device.run(norms, "transpose", x, np.zeros_like(x), 64, 64, pad)
    metrics = device.launch.counters.metrics
    warps = 64 * 64 // 32
    # Rows are written along the banks; columns are read with a stride of 32 or 33 words.
    assert metrics[WAVEFRONTS.format("st")] == warps
    assert metrics[WAVEFRONTS.format("ld")] == warps * ways


def test_work_is_attributed_to_source_lines(device, norms):
    x, out = random((2, 512), np.float16), np.zeros((2, 256), np.float16)
    device.run(norms, "silu_and_mul", out, x, 2, 256, 32)
    lines = device.launch.counters.lines
    text = (SOURCES / "norms.cu").read_text().splitlines()
    loads = next(i for i, line in enumerate(text, 1) if "__ldcs" in line)
    counted = {
        line.line: counts for line, counts in lines.items() if Path(line.file).name == "norms.cu"
    }
    assert counted[loads].global_requests == x.nbytes // 512
    assert counted[loads].global_sectors == x.nbytes // 32
    total = sum(counts.warp_instructions for counts in lines.values())
    issued = device.launch.counters.metrics["smsp__inst_executed.sum"]
    assert issued - 2 <= total <= issued  # the exit has no line in each of two warps


def test_instruction_kinds_add_up(device, norms):
    x = random((4, 777)).astype(np.float16)
    device.run(norms, "packed", x, x.copy(), np.zeros_like(x), x.size // 2)
    counters = device.launch.counters
    assert sum(counters.instructions.values()) == counters.metrics["smsp__inst_executed.sum"]
    assert counters.instructions["fp16"] > 0
    assert counters.instructions["xu"] > 0


def test_counters_do_not_depend_on_threads_and_can_be_left_out(device, norms):
    x, out = random((16, 1024), np.float16), np.zeros((16, 512), np.float16)
    found = []
    for threads in (1, 3):
        options = SimulatorOptions(threads=threads)
        device.run(norms, "silu_and_mul", out, x, 16, 512, 64, options=options)
        found.append(device.launch.counters)
    assert found[0] == found[1]
    device.run(norms, "silu_and_mul", out, x, 16, 512, 64, options=SimulatorOptions(counters=False))
    assert device.launch.counters is None
