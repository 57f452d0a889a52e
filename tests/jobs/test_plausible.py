"""Modelled times that physics forbids, and large workloads whose work was left out."""

import pytest

from astra_kernels.devices.device import Launch
from astra_kernels.jobs.plausible import READ, WRITTEN, doubt, work_left_out
from astra_kernels.jobs.spec import Limits
from astra_kernels.records.evaluation import Passed, Quarantined
from tests.tiers import with_sample

from .staging import FAST, silu_spec, workload

SPEC = silu_spec()
WORKLOAD = workload("w", 512, 1024)  # 3 MB: 0.66 us at 4800 GB/s
OUTPUT_BYTES = 512 * 1024 * 2


def launch(us=5.0, written=OUTPUT_BYTES, sampled=None, read=2 * OUTPUT_BYTES):
    return Launch(
        kernel="k",
        grid=(512, 1, 1),
        block=(128, 1, 1),
        dynamic_shared_bytes=0,
        metrics={WRITTEN: written, READ: read},
        modelled_us=us,
        sampled_blocks=sampled,
    )


def test_no_time_is_below_the_bandwidth_of_the_datasheet():
    assert doubt(SPEC, WORKLOAD, 10.0, [launch(0.7)]) is None
    assert "4800 GB/s" in doubt(SPEC, WORKLOAD, 10.0, [launch(0.1)])
    assert "4800 GB/s" in doubt(SPEC, WORKLOAD, None, [launch(0.1)])
    assert doubt(SPEC, WORKLOAD, 10.0, [launch(0.3), launch(0.4)]) is None


def test_a_floor_that_the_baseline_breaks_does_not_hold():
    assert doubt(SPEC, WORKLOAD, 0.2, [launch(0.1)]) is None


@pytest.mark.parametrize(
    ("share", "sampled", "enough"),
    [
        (1.0, None, True),
        (0.95, None, False),
        (0.95, (64, 512), True),
        (0.8, (64, 512), False),
        (0.0, (64, 512), False),
    ],
)
def test_launches_write_as_much_as_the_outputs_hold(share, sampled, enough):
    launches = [launch(written=share * OUTPUT_BYTES, sampled=sampled)]
    assert (work_left_out(SPEC, WORKLOAD, 10.0, launches) is None) == enough


def test_launches_read_what_the_task_needs_if_the_baseline_does():
    launches = [launch(read=0, sampled=(64, 512))]
    assert "move" in work_left_out(SPEC, WORKLOAD, 10.0, launches)
    assert work_left_out(SPEC, WORKLOAD, 0.1, launches) is None


LARGE = {
    "workloads": (workload("small", 4, 256), workload("large", 512, 1024)),
    "limits": Limits(checked_elements=10_000),
}
BIG = "(tokens > 100)"


@pytest.mark.parametrize(
    ("old", "new"),
    with_sample(
        [
            ("<<<static_cast<unsigned>(tokens)", f"<<<static_cast<unsigned>({BIG} ? 1 : tokens)"),
            ("int64_t row = blockIdx.x;", "int64_t row = blockIdx.x;\n  if (row > 99) return;"),
            (
                "float x = __half2float(in[row * 2 * hidden + i]);",
                "float x = gridDim.x > 100 ? 1.0f : __half2float(in[row * 2 * hidden + i]);",
            ),
            ("i < hidden; i +=", "i < (gridDim.x > 100 ? hidden / 4 : hidden); i +="),
        ],
        1,
        3,
    ),
)
def test_a_large_workload_cannot_be_skipped(judge_job, old, new):
    assert old in FAST
    outcome = judge_job(FAST.replace(old, new), **LARGE)
    assert isinstance(outcome, Quarantined)
    assert outcome.workload == "large"
    assert "work was left out" in outcome.reason


def test_a_large_workload_says_that_it_was_not_judged(judge_job):
    outcome = judge_job(**LARGE)
    assert isinstance(outcome, Passed)
    assert "no win" in outcome.workloads[1].note
