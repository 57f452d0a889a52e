"""What docs/simulator.md states of an H200 is what the recorded data and the simulator give."""

import json
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.devices.machine_code import machine_code
from tests.simulator.validation.__main__ import _off, compare
from tests.simulator.validation.comparison import Timed, time_summary
from tests.simulator.validation.corpus import CHECKED, TIMED
from tests.simulator.validation.counters import counted, read_classes, read_metrics
from tests.simulator.validation.holdout import listed
from tests.simulator.validation.point import STORED
from tests.simulator.validation.programs import build_all
from tests.simulator.validation.simulated import run_points

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "results" / "h200-validation"
SAMPLE = ("movement", "tensor")
"""Sources that are compared every time."""
WAVEFRONTS = tuple(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st"))
GLOBAL = tuple(
    f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
    for what in ("requests", "sectors")
    for op in ("ld", "st")
)


@pytest.fixture(scope="module")
def stated():
    return json.loads((FOLDER / "comparison.json").read_text())


def test_the_summary_of_times_is_that_of_its_rows(stated):
    held = listed()
    groups = {p.name: p.group for p in TIMED}
    times = stated["times"]
    rows = [
        Timed(name, groups[name], us, low, high, modelled, held_out=name in held)
        for name, (us, low, high, modelled) in times["rows"].items()
    ]
    assert len(rows) == len(groups) - 1, "one launcher asks for more threads than a block may have"
    again = time_summary(rows, times["stated_error"])
    for part in ("all", "held_out", "rest"):
        assert again[part] == pytest.approx(times[part], abs=2e-3)


def test_outputs_are_those_of_the_gpu(toolchain, build_cache, stated):
    """Of a part of the corpus, the products on tensor cores among it."""
    programs = build_all(SAMPLE, toolchain, build_cache, 2, None)
    assert not programs.missing
    found = json.loads((FOLDER / "outputs.json").read_text())
    points = tuple(p for p in CHECKED if p.source in SAMPLE)
    assert len({p.kernel for p in points}) > 12
    exact = 0
    with np.load(FOLDER / "outputs.npz", allow_pickle=False) as stored:
        for here in run_points(programs, points):
            there = found[here.point.name]["outputs"]
            for array in here.point.outputs:
                assert array.dtype in STORED
                off = _off(here, array, there[array.name], stored)
                limit = here.point.ulps if array.ulps is None else array.ulps
                assert off <= limit, (here.point.name, array.name)
                exact += off == 0
    assert exact > 20


def test_memory_traffic_is_that_of_the_profiler(toolchain, build_cache):
    """Exactly: broadcasts of wide loads, `ldmatrix`, `stmatrix` and `wmma` included."""
    programs = build_all(SAMPLE, toolchain, build_cache, 2, None)
    measured = read_metrics(FOLDER)
    compared = 0
    for here in run_points(programs, tuple(p for p in CHECKED if p.source in SAMPLE)):
        for metric in (*WAVEFRONTS, *GLOBAL):
            there = measured[here.point.name].get(metric, 0.0)
            assert here.launch.counters.metrics[metric] == there, (here.point.name, metric)
            compared += there > 0
    assert compared > 120


def test_machine_instructions_are_those_of_the_profiler(toolchain, build_cache):
    """Every class of those that loops unrolled by ptxas make most of, on every call."""
    if toolchain.nvdisasm is None:
        pytest.skip("nvdisasm is not installed")
    programs = build_all(("elementwise",), toolchain, build_cache, 2, None)
    code = machine_code(programs.built["elementwise"], toolchain)
    metrics, classes = read_metrics(FOLDER), read_classes(FOLDER)
    compared = 0
    for here in run_points(programs, tuple(p for p in CHECKED if p.source == "elementwise")):
        name = here.point.name
        found = counted(here, metrics[name], classes[name], code[here.launch.kernel])
        for one in found:
            if one.metric.startswith(("instructions", "smsp__inst_executed")):
                assert one.within, (name, one)
                compared += 1
    assert compared > 60


def test_modelled_times_are_the_stated_ones(toolchain, build_cache, stated):
    """Of the two kernels that were furthest off before: the rate of blocks, and stores of parts of lines."""
    chosen = tuple(p for p in TIMED if p.kernel in ("transpose_f32", "permute_i32"))
    rows = stated["times"]["rows"]
    programs = build_all(("movement",), toolchain, build_cache, 2, None)
    for here in run_points(programs, chosen):
        assert here.modelled_us == pytest.approx(rows[here.point.name][3], rel=2e-3)


@pytest.mark.full
@pytest.mark.flashinfer
def test_the_whole_comparison_is_the_stated_one(tmp_path, stated):
    measured = json.loads((FOLDER / "validation.json").read_text())
    again = compare(FOLDER, measured, tmp_path)
    assert again["outputs"] == stated["outputs"]
    assert again["counters"] == stated["counters"]
    parts = ("dram", "written_back", "larger")
    assert [again[p] for p in parts] == [stated[p] for p in parts]
    for part in ("all", "held_out", "rest"):
        assert again["times"][part] == pytest.approx(stated["times"][part], abs=2e-3)
