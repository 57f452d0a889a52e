"""Whole jobs on a real GPU: times that repeat, and cheats that only a clock can see."""

import pytest

from astra_kernels.jobs.spec import Limits
from astra_kernels.records.evaluation import Measured, Passed

from .staging import FAST, SILU, workload

pytestmark = pytest.mark.gpu

WORKLOADS = (workload("small", 64, 4096), workload("odd", 7, 4099, timed=False))
LAUNCH = "// before the launch"


def edited(old, new, text=SILU):
    assert old in text
    return text.replace(old, new)


@pytest.fixture
def on_gpu(judge_job):
    def judged(*sources, **changes):
        return judge_job(*sources, **{"device": "cuda:0", "workloads": WORKLOADS, **changes})

    return judged


def test_the_same_kernel_against_itself_is_even(on_gpu):
    outcome = on_gpu(SILU)
    assert isinstance(outcome, Passed)
    assert isinstance(outcome.geomean, Measured)
    assert outcome.geomean.ratio == pytest.approx(1, abs=0.02)
    assert outcome.device.startswith("cuda:0 NVIDIA")
    assert float(outcome.environment["device_launch_floor_us"]) > 0


def test_a_slower_kernel_is_slower(on_gpu):
    slow = edited("128, 0, stream", "32, 0, stream")
    outcome = on_gpu(slow)
    assert outcome.geomean.ratio_high < 1
    assert outcome.geomean.ratio_low > 0.1


def test_a_profile_counts_what_the_simulator_counts(on_gpu):
    outcome = on_gpu(FAST, profile=True)
    (profile,) = outcome.workloads[0].profiles
    assert profile.source == "ncu", outcome.findings
    assert (profile.grid, profile.block) == ((64, 1, 1), (128, 1, 1))
    sectors = profile.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert sectors == 64 * 2 * 4096 * 2 / 32


def test_a_write_beyond_an_output_is_seen_in_the_guard(on_gpu):
    over = edited("out[row * hidden + i] =", "out[row * hidden + i + (row + 1 == gridDim.x)] =")
    outcome = on_gpu(over)
    assert outcome.outcome in ("unsafe", "incorrect")


def test_an_illegal_address(on_gpu):
    outcome = on_gpu(edited("out[row * hidden + i] =", "out[row * hidden + i + (1ll << 40)] ="))
    assert outcome.outcome == "crashed"
    assert "ILLEGAL_ADDRESS" in outcome.detail


def test_an_endless_kernel(on_gpu):
    loop = edited(
        "out[row * hidden + i] =",
        "while (hidden > 0) __nanosleep(1000);\n    out[row * hidden + i] =",
    )
    outcome = on_gpu(loop, limits=Limits(correctness_s=8))
    assert outcome.outcome == "timed_out"


def test_work_on_another_stream_cannot_be_captured(on_gpu):
    hidden = edited("128, 0, stream", "128, 0, cudaStreamLegacy")
    outcome = on_gpu(hidden)
    assert (outcome.outcome, outcome.rule) == ("rejected", "capture")


def test_work_that_is_skipped_when_captured_is_seen(on_gpu):
    skipping = edited(
        LAUNCH,
        "cudaStreamCaptureStatus status; cudaStreamIsCapturing(stream, &status);\n"
        "  if (status != cudaStreamCaptureStatusNone) return 0;",
    )
    outcome = on_gpu(skipping)
    assert (outcome.outcome, outcome.rule) == ("rejected", "capture")
    assert "no kernel" in outcome.detail


def test_results_of_timed_calls_are_judged(on_gpu):
    lazy = edited(
        LAUNCH,
        "cudaStreamCaptureStatus status; cudaStreamIsCapturing(stream, &status);\n"
        "  if (status != cudaStreamCaptureStatusNone) hidden = 8;",
    )
    outcome = on_gpu(lazy)
    assert outcome.outcome in ("incorrect", "quarantined")


def test_a_kernel_that_remembers_is_too_fast_to_be_true(on_gpu):
    memo = edited("__global__ void silu(", "__device__ int calls;\n__global__ void silu(")
    memo = memo.replace(
        "int64_t row = blockIdx.x;", "int64_t row = blockIdx.x; if (calls > 100) return;", 1
    )
    memo = memo.replace(
        "  }\n}\n", "  }\n  if (row == 0 && threadIdx.x == 0) atomicAdd(&calls, 1);\n}\n", 1
    )
    outcome = on_gpu(memo)
    assert outcome.outcome in ("incorrect", "quarantined")
