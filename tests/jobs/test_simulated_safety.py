"""The safety gate on a simulated device: what compute-sanitizer finds on a GPU is found there too."""

import pytest

from astra_kernels.jobs.spec import Limits
from astra_kernels.records.evaluation import Passed, Unsafe

from .staging import FAST, SILU, workload

STORE = "out[row * hidden + i] = __float2half_rn(x / (1.0f + expf(-x)) * gate);"
STAGED = SILU.replace(
    "  int64_t row = blockIdx.x;", "  __shared__ float s[128];\n  int64_t row = blockIdx.x;"
)
# What a neighbour stored goes through shared memory; the last barrier keeps the next round's stores apart.
BODY = """\
s[threadIdx.x] = x / (1.0f + expf(-x)) * gate;
    {first}
    float mine = s[threadIdx.x ^ {other}];
    {second}
    out[row * hidden + (i ^ {other})] = __float2half_rn(mine);"""


def staged(first="__syncthreads();", second="__syncthreads();", other=64):
    assert STORE in STAGED
    return STAGED.replace(STORE, BODY.format(first=first, second=second, other=other))


EVEN = (workload("even", 4, 256),)


def test_a_kernel_without_a_fault_passes_and_says_what_was_looked_for(judge_job):
    outcome = judge_job(staged(), SILU, workloads=EVEN)
    assert isinstance(outcome, Passed)
    (check,) = outcome.safety
    assert (check.tool, check.verdict) == ("simulator", "held")
    assert "races" in check.detail
    assert "2 orders of warps and blocks on even" in check.detail


def test_lanes_that_nothing_orders_are_unsafe_though_the_outputs_are_right(judge_job):
    """A neighbour's value is there in time, as the simulator runs the lanes of a warp together."""
    racy = staged(first="", other=1)
    outcome = judge_job(racy, SILU, workloads=EVEN)
    assert isinstance(outcome, Unsafe)
    assert (outcome.kind, outcome.file, outcome.workload) == ("shared_race", "silu.cu", "even")
    places = {i for i, line in enumerate(racy.splitlines(), 1) if "s[threadIdx.x" in line}
    (other,) = places - {outcome.line}
    assert f"(silu.cu:{other})" in outcome.detail
    assert isinstance(
        judge_job(staged(first="__syncwarp();", other=1), SILU, workloads=EVEN), Passed
    )


def test_an_output_is_not_written_before_the_call(judge_job):
    """0 times a random finite number is right by luck; the read of it is found all the same."""
    reads = SILU.replace(
        STORE, f"float old = __half2float(out[row * hidden + i]);\n    {STORE}"
    ).replace("* gate);", "* gate + (old == 12345.0f ? 1.0f : 0.0f));")
    outcome = judge_job(reads, SILU, workloads=EVEN)
    assert isinstance(outcome, Unsafe)
    assert outcome.kind == "uninitialised_global_read"


def test_blocks_that_write_the_same_place(judge_job):
    writes = SILU.replace(
        STORE, STORE + "\n    if (i == 0) { out[0] = __float2half_rn(row); __threadfence(); }"
    )
    writes = writes.replace(
        "out[row * hidden + i] =", "if (row * hidden + i) out[row * hidden + i] ="
    )
    outcome = judge_job(writes, SILU, workloads=EVEN)
    assert outcome.outcome in ("unsafe", "incorrect")


def test_what_the_baseline_does_too_is_a_finding_only(judge_job):
    racy = staged(first="", other=1)
    outcome = judge_job(racy.replace("expf(", "__expf("), racy, workloads=EVEN)
    assert isinstance(outcome, Passed)
    (check,) = outcome.safety
    assert check.verdict == "not_established"
    assert any("the baseline too" in f and "nothing orders it" in f for f in outcome.findings)


def test_workloads_too_large_to_check_establish_nothing(judge_job):
    outcome = judge_job(FAST, workloads=EVEN, limits=Limits(checked_elements=10))
    (check,) = outcome.safety
    assert check.verdict == "not_established"
    assert "too large" in check.detail


@pytest.mark.parametrize("text", [SILU, FAST], ids=["baseline", "fast"])
def test_odd_sizes(judge_job, text):
    assert isinstance(judge_job(text), Passed)
