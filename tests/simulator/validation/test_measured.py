"""What docs/simulator.md states of an H200 is what the recorded data and the simulator give."""

import json
from pathlib import Path

import pytest

from tests.simulator.validation.__main__ import _off, compare
from tests.simulator.validation.comparison import Timed, time_summary
from tests.simulator.validation.corpus import CHECKED
from tests.simulator.validation.holdout import listed
from tests.simulator.validation.point import STORED
from tests.simulator.validation.programs import build_all
from tests.simulator.validation.simulated import run_points

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "results" / "h200-validation"
SAMPLE = ("movement", "tensor")
"""Sources that are compared every time."""


@pytest.fixture(scope="module")
def stated():
    return json.loads((FOLDER / "comparison.json").read_text())


def test_the_summary_of_times_is_that_of_its_rows(stated):
    held = listed()
    groups = {p.name: p.group for p in _timed()}
    times = stated["times"]
    rows = [
        Timed(name, groups[name], us, low, high, modelled, held_out=name in held)
        for name, (us, low, high, modelled) in times["rows"].items()
    ]
    assert len(rows) == len(groups) - 1, "one launcher asks for more threads than a block may have"
    again = time_summary(rows, times["stated_error"])
    for part in ("all", "held_out", "rest"):
        assert again[part] == pytest.approx(times[part], abs=2e-3)


def _timed():
    from tests.simulator.validation.corpus import TIMED

    return TIMED


def test_outputs_are_those_of_the_gpu(toolchain, build_cache, stated):
    """Of a part of the corpus, the products on tensor cores among it."""
    import numpy as np

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


@pytest.mark.full
@pytest.mark.flashinfer
def test_the_whole_comparison_is_the_stated_one(tmp_path, stated):
    measured = json.loads((FOLDER / "validation.json").read_text())
    again = compare(FOLDER, measured, tmp_path)
    assert again["outputs"] == stated["outputs"]
    assert again["counters"] == stated["counters"]
    for part in ("all", "held_out", "rest"):
        assert again["times"][part] == pytest.approx(stated["times"][part], abs=2e-3)
