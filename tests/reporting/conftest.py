"""Recorded runs, measured and modelled, finished with and without a winner."""

import tarfile
from pathlib import Path

import pytest

from astra_kernels.app.runs import read_run

TESTS = Path(__file__).parents[1]
ARCHIVES = TESTS.parent / "docs" / "results" / "h200-2026-12-01" / "runs"
RECORDED = sorted(p.parent for p in (TESTS / "recorded").glob("*/events.jsonl"))


@pytest.fixture(scope="session")
def measured_run(tmp_path_factory):
    """A run on an H200 with a confirmed winner."""
    folder = tmp_path_factory.mktemp("runs")
    with tarfile.open(ARCHIVES / "single-fused_add_rmsnorm.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder / "single-fused_add_rmsnorm"


@pytest.fixture(scope="session")
def modelled_run():
    """A run on a simulated H200 with a winner."""
    for directory in RECORDED:
        history = read_run(directory).history
        if history.finished and history.finished.best and history.config.device.startswith("sim"):
            return directory
    pytest.fail("no recorded run on a simulated device has a winner")


@pytest.fixture(params=RECORDED, ids=lambda p: p.name)
def recorded_run(request):
    return request.param
