"""Candidates that write to the pipe of their process, end it early, or let the host do the work."""

import pytest

from astra_kernels.records.evaluation import Passed
from tests.tiers import with_sample

from .staging import FAST, SILU

LAUNCH = "// before the launch"
SYSTEM_CALL = """\
#include <cstring>
static long sys(long n, long a, long b, long c) {
  long r;
  asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return r;
}
static void say(const char* text, int from, int to) {
  for (int fd = from; fd < to; fd++) sys(1, fd, (long)text, strlen(text));
}
extern "C" int silu_and_mul"""


def tampered(statement, text=FAST):
    return text.replace('extern "C" int silu_and_mul', SYSTEM_CALL).replace(LAUNCH, statement)


@pytest.fixture
def judge_tampered(judge_job):
    """The baseline has the system call too, so that admission lets it pass and what follows is tested."""
    return lambda statement: judge_job(tampered(statement), tampered(""))


def line(fields):
    escaped = fields.replace('"', '\\"')
    return f'"{escaped}\\n"'


END = line('{"kind": "end", "index": -1, "detail": "", "data": {}}')
MACHINE = line('{"kind": "machine", "index": -1, "detail": "x", "data": {"error": "UserError"}}')
DONE = line('{"kind": "done", "index": 0, "detail": "", "data": {}}')
LEAVE = "sys(231, 0, 0, 0);"


@pytest.mark.parametrize("words", with_sample([END, MACHINE, DONE], 0))
def test_lines_at_guessed_descriptors_reach_nobody(judge_tampered, words):
    assert isinstance(judge_tampered(f"say({words}, 3, 64);"), Passed)


@pytest.mark.parametrize(
    "words", with_sample([END, MACHINE, DONE, line("[1]"), line("\\\\xff")], 2, 4)
)
def test_lines_at_every_descriptor_are_noticed(judge_tampered, words):
    outcome = judge_tampered(f"say({words}, 3, 1 << 16);")
    assert (outcome.outcome, outcome.rule) == ("rejected", "tampered")


@pytest.mark.parametrize("last", [64, 1 << 16])
def test_a_forged_end_is_no_result(judge_tampered, last):
    outcome = judge_tampered(f"say({END}, 3, {last}); {LEAVE}")
    assert outcome.outcome in ("crashed", "rejected")


def test_a_flood_is_ended_by_its_size_before_the_deadline(judge_tampered):
    flood = (
        "static char junk[1 << 20]; for (auto& c : junk) c = 65;"
        "for (int fd = 3; fd < 1 << 16; fd++)"
        "  if (sys(1, fd, (long)junk, 1) == 1)"
        "    while (sys(1, fd, (long)junk, sizeof junk) > 0) {}"
    )
    outcome = judge_tampered(flood)
    assert outcome.outcome == "crashed"
    assert "MiB" in outcome.detail


def test_a_call_that_launches_nothing_is_refused(judge_job):
    launch = SILU[SILU.index("  silu<<<") : SILU.index("  return cudaGetLastError")]
    outcome = judge_job(SILU.replace(launch, ""))
    assert (outcome.outcome, outcome.rule) == ("rejected", "no_kernel")


def before_launch(statement):
    return SILU.replace(LAUNCH, statement)


@pytest.mark.parametrize(
    "statement",
    with_sample(
        [
            "*static_cast<volatile short*>(out) = 0;",
            "volatile short x = *static_cast<short*>(in); (void)x;",
            "void* p; cudaMallocAsync(&p, 64, stream); *static_cast<volatile short*>(p) = 0;",
            "void* p; cudaGetSymbolAddress(&p, staged); *static_cast<volatile short*>(p) = 0;",
        ],
        *(1, 3),
    ),
)
def test_host_code_cannot_touch_device_memory(judge_job, statement):
    source = before_launch(statement).replace(
        "__global__", "__device__ short staged[8];\n__global__"
    )
    outcome = judge_job(source)
    assert outcome.outcome == "crashed"
    assert "SIGSEGV" in outcome.detail
    assert "device memory" in outcome.detail


def test_copies_and_fills_of_a_launcher_work(judge_job):
    source = before_launch(
        "void* p; cudaMallocAsync(&p, tokens * hidden * 2, stream);"
        "cudaMemsetAsync(out, 0, tokens * hidden * 2, stream);"
        "cudaMemcpyAsync(p, out, tokens * hidden * 2, cudaMemcpyDeviceToDevice, stream);"
        "cudaFreeAsync(p, stream);"
    )
    outcome = judge_job(source)
    assert isinstance(outcome, Passed)
    assert not any("to the host" in finding for finding in outcome.findings)


COPY = "static char host[1 << 16]; cudaMemcpy{}(host, in, 512, cudaMemcpyDeviceToHost{});"


def test_an_asynchronous_copy_to_the_host_brings_nothing_in_time(judge_job):
    unused = judge_job(before_launch(COPY.format("Async", ", stream")))
    assert isinstance(unused, Passed)
    assert any("to the host" in finding for finding in unused.findings)
    back = "cudaMemcpyAsync(out, host, 512, cudaMemcpyHostToDevice, stream);"
    used = SILU.replace("  return cudaGetLastError", f"{COPY}{back}\n  return cudaGetLastError")
    assert judge_job(used.replace(COPY, COPY.format("Async", ", stream"))).outcome == "incorrect"


def test_a_copy_to_the_host_that_waits_is_refused(judge_job):
    baseline = "if (tokens < 0) cudaMemcpy(out, in, 512, cudaMemcpyDeviceToDevice);"  # so that both may import it
    outcome = judge_job(before_launch(COPY.format("", "")), before_launch(baseline))
    assert (outcome.outcome, outcome.rule) == ("rejected", "device_to_host")


@pytest.mark.parametrize(
    ("statement", "said"),
    with_sample(
        [
            (
                "cudaMemsetAsync(out, 0, 64, cudaStreamPerThread);",
                "cudaMemsetAsync on the default stream",
            ),
            ("void* p; cudaMallocAsync(&p, 64, 0);", "cudaMallocAsync on the default stream"),
            (
                "silu<<<1, 128>>>((__half*)out, (__half*)in, 1);",
                "cudaLaunchKernel on the default stream",
            ),
        ],
        *(0, 2),
    ),
)
def test_work_on_another_stream_is_refused(judge_job, statement, said):
    outcome = judge_job(before_launch(statement))
    assert (outcome.outcome, outcome.rule) == ("rejected", "stream")
    assert said in outcome.detail


def test_reading_before_the_kernel_before_has_ended_is_unsafe(judge_job):
    launch = SILU[SILU.index("  silu<<<") : SILU.index("  return cudaGetLastError")]
    overlapping = SILU.replace(
        launch,
        "  cudaLaunchConfig_t config = {};\n"
        "  config.gridDim = tokens; config.blockDim = 128; config.stream = stream;\n"
        "  cudaLaunchAttribute attribute;\n"
        "  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;\n"
        "  attribute.val.programmaticStreamSerializationAllowed = 1;\n"
        "  config.attrs = &attribute; config.numAttrs = 1;\n"
        "  cudaLaunchKernelEx(&config, silu, (__half*)out, (const __half*)in, hidden);\n",
    )
    outcome = judge_job(overlapping)
    assert (outcome.outcome, outcome.kind) == ("unsafe", "read_before_grid_wait")
    assert (outcome.file, outcome.block, outcome.thread) == ("silu.cu", (0, 0, 0), (0, 0, 0))
    waiting = "int64_t row = blockIdx.x;"
    patient = overlapping.replace(waiting, f"cudaGridDependencySynchronize();\n  {waiting}")
    assert isinstance(judge_job(patient), Passed)


def test_sums_in_memory_that_is_not_cleared_are_wrong(judge_job):
    kernel = SILU.replace(
        "__half* __restrict__ out, const", "float* sums, __half* __restrict__ out, const"
    ).replace(
        "__float2half_rn(x / (1.0f + expf(-x)) * gate)",
        "__float2half_rn(sums[i] + x / (1.0f + expf(-x)) * gate)",
    )
    kernel = kernel.replace(LAUNCH, "float* sums; cudaMallocAsync(&sums, hidden * 4, stream);")
    kernel = kernel.replace("static_cast<__half*>(out),", "sums, static_cast<__half*>(out),")
    assert judge_job(kernel).outcome == "incorrect"
    cleared = kernel.replace(
        "hidden * 4, stream);", "hidden * 4, stream); cudaMemsetAsync(sums, 0, hidden * 4, stream);"
    )
    assert isinstance(judge_job(cleared), Passed)
