"""What is caught, refused or limited, and how it is reported."""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.simulator import (
    CompressedFatbin,
    FaultKind,
    MissingSymbol,
    SimulatorOptions,
    SimulatorRefusal,
    UnsupportedPtx,
)
from tests.simulator.conftest import SOURCES, compile_library

LINES = (SOURCES / "faults.cu").read_text().splitlines()


def line_of(mark):
    return next(i for i, text in enumerate(LINES, 1) if text.endswith(f"// here: {mark}"))


def check(fault, kind, mark, thread, block=0):
    assert fault is not None
    assert (fault.kind, fault.block[0], fault.thread[0]) == (kind, block, thread)
    assert Path(fault.line.file).name == "faults.cu"
    assert fault.line.line == line_of(mark)


def test_one_element_past_the_end(device, faults):
    y = np.zeros(300, np.float32)
    assert device.run(faults, "past_end", y, 300) == 700
    check(device.launch.fault, FaultKind.GLOBAL_BOUNDS, "past_end", thread=300 - 256, block=2)
    assert "starting 0 bytes after the end of 'argument 0' (1200 bytes)" in str(device.launch.fault)


def test_one_element_before_the_start(device, faults):
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    assert device.run(faults, "read_before", x, y) == 700
    check(device.launch.fault, FaultKind.GLOBAL_BOUNDS, "read_before", thread=0)
    assert "starting 4 bytes before 'argument 0'" in str(device.launch.fault)


def test_misaligned_vector(device, faults):
    assert device.run(faults, "misaligned", np.zeros(64, np.float32)) == 716
    check(device.launch.fault, FaultKind.GLOBAL_MISALIGNED, "misaligned", thread=0)
    assert device.launch.fault.size == 16


@pytest.mark.parametrize("entry", ["shared", "dynamic_shared"])
def test_shared_memory_bounds(device, faults, entry):
    y = np.zeros(64, np.float32)
    assert device.run(faults, entry, y, 0) == 0
    np.testing.assert_array_equal(y, 1)
    assert device.run(faults, entry, y, 3) == 700
    check(device.launch.fault, FaultKind.SHARED_BOUNDS, entry, thread=61)


def test_an_endless_loop_ends_at_the_step_limit(device, faults):
    options = SimulatorOptions(step_limit=10_000)
    assert device.run(faults, "endless", np.zeros(1, np.int32), options=options) == 702
    assert device.launch.fault.kind == FaultKind.STEP_LIMIT


def test_barriers_that_never_fill(device, faults):
    assert device.run(faults, "deadlock", np.zeros(64, np.int32)) == 702
    check(device.launch.fault, FaultKind.DEADLOCK, "deadlock", thread=0)


def test_a_lane_outside_of_the_mask(device, faults):
    assert device.run(faults, "wrong_mask", np.zeros(32, np.int32)) == 719
    check(device.launch.fault, FaultKind.SYNC_MASK, "wrong_mask", thread=16)


def test_trap(device, faults):
    assert device.run(faults, "trap", np.arange(32, dtype=np.int32)) == 719
    check(device.launch.fault, FaultKind.TRAP, "trap", thread=3)


def test_a_failed_assertion(device, faults):
    assert device.run(faults, "asserted", np.arange(32, dtype=np.int32)) == 710
    check(device.launch.fault, FaultKind.ASSERTION, "assert", thread=5)
    said = f"faults.cu:{line_of('assert')}: void assert_kernel(int *): assertion `y[threadIdx.x] != 5` failed"
    assert said in str(device.launch.fault)


def test_an_instruction_that_is_not_implemented_is_refused_by_name(device, faults):
    with pytest.raises(UnsupportedPtx) as refused:
        device.run(faults, "tensor", np.zeros(32, np.float32))
    assert "mma.sync.aligned.m8n8k32" in str(refused.value)
    assert refused.value.kernel == "_Z13tensor_kernelPf"
    assert Path(refused.value.line.file).name == "faults.cu"


def test_launch_limits_are_the_drivers(device, faults):
    y = np.zeros(32, np.int32)
    assert device.run(faults, "many_threads", y, 1025) == 9
    assert device.run(faults, "many_threads", y, 0) == 9
    assert device.run(faults, "large_shared", y, 49152, 0) == 0
    assert device.run(faults, "large_shared", y, 49156, 0) == 1
    assert device.run(faults, "large_shared", y, 232448, 1) == 0
    assert device.run(faults, "large_shared", y, 232452, 1) == 1


def test_launch_attributes(device, faults):
    y = np.zeros(3, np.int32)
    assert device.run(faults, "extended", y, 3, 1) == 0
    np.testing.assert_array_equal(y, [0, 1, 2])
    assert device.run(faults, "extended", y, 3, 2) == 801


def test_the_runtime_answers_for_the_machine(device, faults):
    out = (ctypes.c_int * 7)()
    assert faults.function("queries")(out) == 0
    assert list(out) == [132, 132, 256, 2, 90, 232448, 0]
    name = faults.function("error_name")
    name.restype = ctypes.c_char_p
    assert name(719) == b"cudaErrorLaunchFailure"


def test_copies_on_the_device_are_checked(faults):
    assert faults.function("copy_on_device")(16) == 0
    assert faults.function("copy_on_device")(17) == 1


def test_a_missing_runtime_function_is_named_before_loading(device, built):
    with pytest.raises(MissingSymbol, match="cudaGraphCreate"):
        device.simulator.load(built["missing"])


def test_compressed_ptx_is_refused_with_the_remedy(device, toolchain, tmp_path):
    source = tmp_path / "compressed.cu"
    source.write_text("__global__ void k(int* y) { y[threadIdx.x] = blockIdx.x; }" + "\n" * 50)
    packed = compile_library(toolchain, source, tmp_path / "packed.so", "--compress-mode=size")
    with pytest.raises(CompressedFatbin, match="--no-compress"):
        device.simulator.load(packed)


def test_a_file_that_is_no_library(device, tmp_path):
    path = tmp_path / "text.so"
    path.write_text("not a library")
    with pytest.raises(SimulatorRefusal, match="not a 64-bit shared library"):
        device.simulator.load(path)


def test_a_sample_runs_the_first_and_last_block(device, faults):
    y = np.full(1000, -1, np.int32)
    options = SimulatorOptions(block_sample=10, seed=3)
    assert device.run(faults, "indices", y, 1000, options=options) == 0
    launch = device.launch
    ran = np.flatnonzero(y >= 0)
    assert (len(ran), launch.executed_blocks, launch.sampled) == (10, 10, True)
    assert (ran[0], ran[-1]) == (0, 999)
    requests = launch.counters.metrics["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"]
    assert requests == 1000
    again = np.full(1000, -1, np.int32)
    device.run(faults, "indices", again, 1000, options=options)
    np.testing.assert_array_equal(y, again)


def test_registers_come_from_the_machine_code_beside_the_ptx(device, toolchain, tmp_path):
    source = tmp_path / "registers.cu"
    source.write_text(
        "#include <cuda_runtime.h>\n"
        "__global__ void __launch_bounds__(64) k(float* y) {\n"
        "  float v[48];\n"
        "  for (int i = 0; i < 48; ++i) v[i] = y[i * 64 + threadIdx.x];\n"
        "  __syncthreads();\n"
        "  for (int i = 0; i < 48; ++i) y[i * 64 + threadIdx.x] = v[i] * v[47 - i];\n"
        "}\n"
        'extern "C" int registers() {\n'
        "  cudaFuncAttributes a;\n"
        "  return cudaFuncGetAttributes(&a, k) ? -1 : a.numRegs;\n"
        "}\n"
    )
    flags = ("--no-compress", "-gencode", "arch=compute_90,code=sm_90", "-Xptxas", "-v")
    command_output = []
    built = compile_library(toolchain, source, tmp_path / "r.so", *flags, output=command_output)
    used = re.search(r"Used (\d+) registers", command_output[0])
    assert device.simulator.load(built).function("registers")() == int(used[1])
