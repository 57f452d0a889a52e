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


def test_a_doubt_by_clocks_is_looked_at_again(on_gpu, monkeypatch):
    """A replay of one call is shorter than the time that its marks take to arrive."""
    monkeypatch.setattr("astra_kernels.jobs.timing.LONG_REPLAY_US", 1.0)
    assert isinstance(on_gpu(SILU), Passed)


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


MEMO = """\
  __shared__ bool known;
  const unsigned long long mask = MASK;
  if (threadIdx.x == 0) {
    known = true;
    for (int i = 0; i < 4; ++i) {
      known = known && keys[row][i] == (reinterpret_cast<const unsigned long long*>(in + row * 2 * hidden)[i] & mask);
    }
  }
  __syncthreads();
  if (known) {
    for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) out[row * hidden + i] = saved[row][i];
    return;
  }
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    float x = __half2float(in[row * 2 * hidden + i]), gate = __half2float(in[row * 2 * hidden + hidden + i]);
    saved[row][i] = __float2half_rn(x / (1.0f + expf(-x)) * gate);
  }
  if (threadIdx.x < 4) {
    keys[row][threadIdx.x] =
        reinterpret_cast<const unsigned long long*>(in + row * 2 * hidden)[threadIdx.x] & mask;
  }
"""


@pytest.mark.parametrize(
    ("mask", "outcomes"),
    [("~0ull", {"passed"}), ("0x7fff7fff7fff7fffull", {"incorrect"})],
    ids=["exact", "by-magnitude"],
)
def test_remembering_results_by_value_gains_nothing(on_gpu, mask, outcomes):
    """Signs of the inputs are drawn anew for every timed call: a key never comes back, or its result is wrong."""
    keeping = edited(
        "__global__ void silu(",
        "__device__ unsigned long long keys[64][4];\n__device__ __half saved[64][4100];\n__global__ void silu(",
    )
    memo = edited("blockIdx.x;\n", "blockIdx.x;\n" + MEMO.replace("MASK", mask), keeping)
    # A baseline that keeps as much memory admits the candidate, so that the clock has to judge it.
    unused = "if (hidden < 0) saved[row][0] = __float2half(float(keys[row][0]));\n"
    baseline = edited("blockIdx.x;\n", "blockIdx.x;\n  " + unused, keeping)
    outcome = on_gpu(memo, baseline, workloads=WORKLOADS[:1])
    assert outcome.outcome in outcomes
    if outcome.outcome == "passed":
        assert outcome.geomean.ratio_low < 1


def with_early_launch(kernel_waits):
    text = edited(
        "  silu<<<static_cast<unsigned>(tokens), 128, 0, stream>>>(\n"
        "      static_cast<__half*>(out), static_cast<const __half*>(in), hidden);\n",
        "  cudaLaunchConfig_t config = {};\n"
        "  config.gridDim = static_cast<unsigned>(tokens);\n"
        "  config.blockDim = 128;\n"
        "  config.stream = stream;\n"
        "  cudaLaunchAttribute early;\n"
        "  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;\n"
        "  early.val.programmaticStreamSerializationAllowed = 1;\n"
        "  config.attrs = &early;\n"
        "  config.numAttrs = 1;\n"
        "  cudaLaunchKernelEx(&config, silu, static_cast<__half*>(out), static_cast<const __half*>(in), hidden);\n",
    )
    if kernel_waits:
        text = text.replace("blockIdx.x;\n", "blockIdx.x;\n  cudaGridDependencySynchronize();\n", 1)
        text = text.replace("  }\n}\n", "  }\n  cudaTriggerProgrammaticLaunchCompletion();\n}\n", 1)
    return text


def test_an_early_launch_that_waits_is_timed_without_and_in_a_chain(on_gpu):
    outcome = on_gpu(with_early_launch(True))
    assert isinstance(outcome, Passed)
    (chain,) = [w.chain for w in outcome.workloads if w.timing]
    assert chain.candidate_us < chain.candidate_waiting_us
    assert chain.ratio > 1
    assert chain.baseline_us == pytest.approx(chain.baseline_waiting_us, rel=0.2)


def test_an_early_launch_that_does_not_wait_is_seen(on_gpu):
    outcome = on_gpu(with_early_launch(False))
    assert (outcome.outcome, outcome.rule) == ("rejected", "launch_dependency")


def test_warm_times_and_separate_processes(on_gpu):
    outcome = on_gpu(SILU, limits=Limits(warm=True, alone=True))
    assert isinstance(outcome, Passed)
    (warm,) = [w.warm for w in outcome.workloads if w.timing]
    assert (warm.cache, outcome.workloads[0].timing.cache) == ("warm", "cold")
    assert warm.baseline_us < outcome.workloads[0].timing.baseline_us
    assert outcome.warm_geomean.ratio == pytest.approx(1, abs=0.02)


def test_a_kernel_that_fails_only_when_replayed_is_charged_to_it(on_gpu):
    late = edited("__global__ void silu(", "__device__ int calls;\n__global__ void silu(")
    late = late.replace(
        "  }\n}\n", "  }\n  if (atomicAdd(&calls, 1) > 50000) out[1ll << 44] = out[0];\n}\n", 1
    )
    outcome = on_gpu(late)
    assert (outcome.outcome, outcome.stage) == ("crashed", "time")
