"""The corpus builds, runs on the simulator, and computes what NumPy computes where that is simple."""

import hashlib

import numpy as np
import pytest

from tests.simulator.validation.corpus import CHECKED, KERNELS, SOURCES
from tests.simulator.validation.point import Array, filled
from tests.simulator.validation.programs import build_all, flashinfer_headers
from tests.simulator.validation.references import REFERENCES, reference, wide
from tests.simulator.validation.simulated import run_points

TOLERANCE = {"f64": 1e-14, "f32": 2e-6, "f16": 1.5e-3, "bf16": 9e-3}
SUMS = {"row_sum": 2e-5, "matvec_f32": 2e-5}


@pytest.fixture(scope="module")
def programs(toolchain, build_cache):
    return build_all(SOURCES, toolchain, build_cache, 2, flashinfer_headers())


@pytest.fixture(scope="module")
def simulated(programs):
    return {here.point.name: here for here in run_points(programs, CHECKED)}


def test_everything_is_built(programs):
    assert set(programs.missing) <= {"flashinfer"}, programs.missing
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS) >= 27


@pytest.mark.parametrize("kernel", sorted(REFERENCES))
def test_against_numpy(simulated, kernel):
    points = [point for point in CHECKED if point.kernel == kernel]
    assert points
    for point in points:
        array = point.outputs[0]
        got = wide(simulated[point.name].outputs[array.name], array.dtype).ravel()
        expected = reference(point)
        if array.dtype in TOLERANCE:
            allowed = SUMS.get(kernel, TOLERANCE[array.dtype]) * np.maximum(1, np.abs(expected))
            assert np.all(np.abs(got - expected) <= allowed), point.name
        else:
            # A product on the border between two integers may be rounded to either.
            slack = 1 if kernel == "quantise_int8" else 0
            assert np.max(np.abs(got - expected)) <= slack, point.name


@pytest.mark.parametrize(
    "kernel", [k.name for k in KERNELS if k.source != "flashinfer" and len(k.ways) > 1]
)
def test_nothing_is_left_unwritten(simulated, kernel):
    for point in CHECKED:
        if point.kernel == kernel:
            here = simulated[point.name]
            assert any(values.any() for values in here.outputs.values()), point.name
            assert here.modelled_us > 0


def test_inputs_are_the_same_bytes_everywhere():
    # Written down once; a change of NumPy or of the machine must not change them.
    arrays = [
        Array("x", dtype, 1000, fill)
        for dtype, fill in (
            ("f32", "symmetric"), ("bf16", "symmetric"), ("f16", "positive"), ("f32", "cosine"),
            ("u32", "bits"), ("i32", "permutation"), ("i32", "rows:7"),
        )
    ]  # fmt: skip
    data = b"".join(filled(array, "seed").tobytes() for array in arrays)
    assert hashlib.sha256(data).hexdigest() == DIGEST


DIGEST = "dd8ae5a73ccff07b9e0ac4093be89549147f20a7febdb44f5f5967ca895b5fe2"


SHARED = "smsp__inst_executed_op_shared_{}.sum"


@pytest.mark.parametrize(
    ("way", "loads"),
    # A turn of 16 steps reads 16 words of a column, and 16 of a row: of these ptxas makes four loads where
    # rows start at multiples of 16 bytes.
    [("tile", 16 + 4), ("padded-tile", 16 + 16), ("registers", 16 + 16)],
)
def test_loads_of_two_tiles_are_merged_as_ptxas_does(simulated, way, loads):
    name = f"matmul_f32/n=64/{way},block=256"
    launch = simulated[name].launch
    turns = launch.blocks * 8 * (64 // 16)
    assert launch.counters.metrics[SHARED.format("ld")] == turns * loads


def test_neighbours_that_never_start_at_a_multiple_of_their_size_are_not_merged(simulated):
    launch = simulated["stencil_f32/rows=30,columns=500/shared,block=256"].launch
    metrics = launch.counters.metrics
    # Five loads a warp, each of consecutive words, in the rows and warps that are not the border's.
    assert metrics[SHARED.format("ld")] == 5 * 28 * 16
    assert metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 5 * 28 * 16
