"""Programs that an attacker of the simulated device wrote: through the whole judge, wrong ones and right ones."""

import pytest

from astra_kernels.records.describe import describe
from astra_kernels.records.evaluation import Crashed, Passed, TimedOut, Unsafe

from .staging import SILU, workload

EVEN = (workload("even", 4, 256),)
STORE = "out[row * hidden + i] = __float2half_rn(x / (1.0f + expf(-x)) * gate);"
HALVES = """\
__shared__ float s[128];
    s[threadIdx.x] = x / (1.0f + expf(-x)) * gate;
    asm volatile("bar.sync 1, {count};" ::: "memory");
    out[row * hidden + (i ^ 64)] = __float2half_rn(s[threadIdx.x ^ 64]);
    __syncthreads();"""
BEFORE = "  // before the launch\n"
WAIT = """\
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned before = atomicAdd(&arrived, 1u);
    while (*(volatile unsigned*)&arrived < (before / gridDim.x + 1) * gridDim.x) {
    }
  }
  __syncthreads();
  int64_t row = blockIdx.x;"""


def changed(before, after):
    assert before in SILU
    return SILU.replace(before, after)


def launcher(text):
    return changed(BEFORE, f"{BEFORE}  {text}\n")


def test_a_barrier_with_all_its_threads_passes_and_one_with_half_of_them_does_not(judge_job):
    right = judge_job(changed(STORE, HALVES.format(count=128)), SILU, workloads=EVEN)
    assert isinstance(right, Passed), right
    wrong = judge_job(changed(STORE, HALVES.format(count=64)), SILU, workloads=EVEN)
    assert not isinstance(wrong, Passed), wrong


def test_a_barrier_that_no_block_has(judge_job):
    text = changed(
        "  int64_t row = blockIdx.x;",
        '  asm volatile("bar.sync %0;" ::"r"((int)hidden) : "memory");\n  int64_t row = blockIdx.x;',
    )
    outcome = judge_job(text, SILU, workloads=EVEN)
    assert isinstance(outcome, Unsafe)
    assert outcome.kind == "barrier_operand"
    assert "there is no barrier 256" in outcome.detail


def test_a_kernel_that_prints_passes(judge_job):
    text = changed(
        STORE, f'if (row == 0 && i == 0) printf("%d rows\\n", (int)gridDim.x);\n    {STORE}'
    )
    outcome = judge_job("#include <cstdio>\n" + text, SILU, workloads=EVEN)
    assert isinstance(outcome, Passed), outcome


def test_blocks_that_wait_for_one_another_pass(judge_job):
    text = changed("  int64_t row = blockIdx.x;", WAIT)
    outcome = judge_job("__device__ unsigned arrived;\n" + text, SILU, workloads=EVEN)
    assert isinstance(outcome, Passed), outcome


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("float h; if (int e = cudaMemcpyAsync(&h, (float*)in + 100000000, 4, cudaMemcpyDeviceToHost, stream)) return e;", 1),
        ("if (int e = cudaMemsetAsync((char*)out + 100000000, 0, 4, stream)) return e;", 1),
        ("void* p; if (int e = cudaMallocAsync(&p, 900ull << 30, stream)) return e;", 2),
    ],
    ids=["copy", "fill", "allocation"],
)  # fmt: skip
def test_calls_that_the_runtime_refuses(judge_job, text, code):
    outcome = judge_job(launcher(text), SILU, workloads=EVEN)
    assert isinstance(outcome, Crashed) or getattr(outcome, "rule", "") == "device_to_host", outcome
    if isinstance(outcome, Crashed):
        assert f"returned {code};" in outcome.detail


def test_an_endless_loop_ran_out_of_steps_not_of_seconds(judge_job):
    text = changed(STORE, f"while (in[0] == in[0] && i < hidden) __threadfence();\n    {STORE}")
    outcome = judge_job(text, SILU, workloads=EVEN)
    assert isinstance(outcome, TimedOut), outcome
    said = describe(outcome)
    assert said.startswith("ran out of steps in correctness")
    assert " s in" not in said
    assert "20,000,000 instructions" in said
