"""Every trick of the gallery gets the outcome that its row names, on a simulated device and on a GPU."""

from collections import Counter

import pytest

from astra_kernels.jobs.run_job import run_job

from .gallery import ROGUES
from .rogue import matches
from .staging import stage

OF_A_KIND = 2
"""How many rogues of one base and one verdict run every time; the others run with --full."""


def rows(device):
    kinds = Counter()
    for rogue in ROGUES:
        missing = rogue.pending.get(device)
        marks = [pytest.mark.xfail(reason=f"pending: {missing}", strict=True)] if missing else []
        kind = (rogue.base, rogue.sim, rogue.gpu)
        kinds[kind] += 1
        if device == "sim" and kinds[kind] > OF_A_KIND and not missing:
            marks.append(pytest.mark.full)
        yield pytest.param(rogue, id=rogue.name, marks=marks)


@pytest.fixture
def judged(tmp_path, toolchain, build_cache):
    def judged(rogue, device):
        job = stage(tmp_path / "job", rogue, device)
        return run_job(job, toolchain=toolchain, cache_dir=build_cache)

    return judged


@pytest.mark.parametrize("rogue", [*rows("sim")])
def test_on_a_simulated_device(judged, rogue):
    outcome = judged(rogue, "sim:h200")
    assert matches(rogue.sim, outcome), outcome


@pytest.mark.gpu
@pytest.mark.parametrize("rogue", [*rows("gpu")])
def test_on_a_gpu(judged, rogue):
    outcome = judged(rogue, "cuda:0")
    assert matches(rogue.gpu, outcome), outcome


def test_names_are_unique():
    assert len({rogue.name for rogue in ROGUES}) == len(ROGUES)
