"""The time model against the measured rows, and its estimate of machine code against the profiler's counts."""

import ctypes
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.simulator import (
    Resources,
    SimulatorOptions,
    load_machine,
    model_time_us,
    stated_error,
)
from tests.simulator.model_fit import root_mean_square
from tests.simulator.model_rows import MEASURED, Program, build, call, registers_of

ROOT = Path(__file__).parents[2]
H200 = load_machine("h200")
LARGE, SMALL = (1024, 14336), (1, 14336)
SPLITS = ("own", "split=2", "split=4", "split=8", "split=16")
# Nsight Compute's smsp__inst_executed a warp on an H200, of the kernels that the shapes launch.
EXECUTED = {
    ("own", SMALL): 224.0,
    ("exp+rcp", SMALL): 200.0,
    ("exp+div", SMALL): 163.0,
    ("own", LARGE): 367.75,
    ("exp+rcp", LARGE): 325.75,
    ("exp+div", LARGE): 259.25,
}


@pytest.fixture(scope="module")
def silu(device, toolchain, tmp_path_factory):
    """Simulates versions of silu_and_mul; gives launch and resources by version and shape."""
    folder = tmp_path_factory.mktemp("silu")
    found = {}

    def run(version, shape):
        if (version, shape) not in found:
            program = Program("silu_and_mul", "fp16", version)
            path = build(toolchain, program, folder)
            launch = call(device, device.simulator.load(path), program, shape, None)
            found[version, shape] = launch, Resources(registers_of(path)[launch.kernel])
        return found[version, shape]

    return run


@pytest.mark.full
def test_more_blocks_a_row_are_modelled_in_the_order_that_was_measured(silu):
    rows = json.loads(MEASURED.read_text())["problems"]["rows"]
    for shape in (LARGE, (2048, 14336)):
        measured = [
            min(r["device_us"] for r in rows if (r["kernel"], r["version"], tuple(r["shape"]), r["dtype"])
                == ("silu_and_mul", version, shape, "fp16"))
            for version in SPLITS
        ]  # fmt: skip
        modelled = []
        for version in SPLITS:
            launch, resources = silu(version, shape)
            modelled.append(model_time_us(launch, H200, resources))
        assert measured == sorted(measured)
        assert modelled == sorted(modelled)
        assert modelled[-1] / modelled[0] == pytest.approx(measured[-1] / measured[0], rel=0.1)


def test_a_guarded_reciprocal_is_slower_than_its_division_on_small_shapes(silu):
    times = {v: model_time_us(*_with_machine(silu(v, SMALL))) for v in ("own", "exp+rcp")}
    assert times["exp+rcp"] > times["own"]


def _with_machine(found):
    launch, resources = found
    return launch, H200, resources


@pytest.mark.parametrize(("version", "shape"), EXECUTED)
def test_issue_slots_are_near_the_instructions_that_the_profiler_counted(silu, version, shape):
    launch, _ = silu(version, shape)
    warps = launch.blocks * launch.threads_per_block / 32
    ratio = launch.counters.issue_slots / warps / EXECUTED[version, shape]
    assert abs(math.log(ratio)) < 0.15


@pytest.mark.full
@pytest.mark.flashinfer
def test_the_stated_error_is_what_the_measured_rows_give(tmp_path):
    # In a process of its own: it loads libraries by the hundred, and the corpus has a simulator for itself.
    command = [sys.executable, "-m", "tests.simulator.model_fit", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(done.stdout[done.stdout.index("\n{") :])
    stated = json.loads((MEASURED.parent / "h200_model_error.json").read_text())
    del stated["unseen_gain"]  # has a test of its own
    sampled, at_most = found.pop("sampled_gain"), stated.pop("sampled_gain")
    gain, stated_gain = found.pop("gain"), stated.pop("gain")
    assert found == pytest.approx(stated, abs=3e-3)
    assert gain == pytest.approx(stated_gain, abs=3e-3)
    # Which blocks a sample takes is no part of the model; a better choice may only lower its error.
    assert sampled["root_mean_square"] <= at_most["root_mean_square"] + 3e-3
    assert stated_error().rows == stated["rows"]


def arguments_of(kernel, shape, allocate):
    """Buffers of a reconstructed row's kernel, by their sizes in bytes, and then its sizes."""
    if kernel == "merge_state":
        seq, heads, dim = shape
        values, scales = 2 * seq * heads * dim, 4 * seq * heads
        sizes = [values, scales] * 3
    else:
        tokens, hidden = shape
        row = 2 * tokens * hidden
        sizes = [row, 2 * row] if kernel == "silu_and_mul" else [row, row, 2 * hidden]
    return [allocate(size) for size in sizes]


@pytest.mark.flashinfer
def test_reconstructed_kernels_are_modelled_as_the_earlier_rows_have_them(device, measured_library):
    library = device.simulator.load(measured_library)
    device.simulator.options = SimulatorOptions(block_sample=300)
    measured = json.loads(MEASURED.read_text())
    # Shapes of these kernels that were measured again later came out up to 9 % faster: the later time counts.
    again = {
        (row["kernel"], *row["shape"]): row["device_us"]
        for row in measured["problems"]["rows"]
        if (row["kernel"], row["version"], row["dtype"])
        == ("fused_add_rmsnorm", "flashinfer", "fp16")
    }
    errors = {}
    for row in measured["rows"]:
        buffers = arguments_of(row["kernel"], row["shape"], device.simulator.allocate)
        sizes = [ctypes.c_int(n) for n in row["shape"]]
        assert library.function(row["kernel"])(*map(ctypes.c_void_p, buffers), *sizes) == 0
        (launch,) = device.simulator.take_launches()
        for buffer in buffers:
            device.simulator.free(buffer)
        there_us = again.get((row["kernel"], *row["shape"]), row["device_us"])
        error = math.log(model_time_us(launch, H200, Resources(32)) / there_us)
        errors.setdefault(row["kernel"], []).append(error)
    print({kernel: [round(e, 3) for e in found] for kernel, found in errors.items()})
    assert root_mean_square(errors["fused_add_rmsnorm"]) < 0.08
    assert root_mean_square(errors["merge_state"]) < 0.08


def test_the_error_of_unseen_gains_is_what_its_rows_give():
    """Recomputed from the rows; they were measured after the model was fixed."""
    rows = json.loads((MEASURED.parent / "h200_unseen_gains.json").read_text())["rows"]
    errors = np.concatenate([row["workload_log_errors"] for row in rows])
    geomeans = np.log([row["modelled_gain"] / row["measured_gain"] for row in rows])
    stated = stated_error().unseen_gain
    assert (stated.pairs, stated.geomeans) == (errors.size, geomeans.size)
    assert stated.root_mean_square == pytest.approx(np.sqrt(np.mean(errors**2)), abs=1e-3)
    assert stated.worst == pytest.approx(np.abs(errors).max(), abs=1e-3)
    assert stated.geomean_root_mean_square == pytest.approx(np.sqrt(np.mean(geomeans**2)), abs=1e-3)
    assert stated.geomean_worst == pytest.approx(np.abs(geomeans).max(), abs=1e-3)
