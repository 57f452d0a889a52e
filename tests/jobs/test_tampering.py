"""Candidates that write to the pipe of their process, end it early, or let the host do the work."""

import pytest

from astra_kernels.records.evaluation import Passed

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


@pytest.mark.parametrize("words", [END, MACHINE, DONE])
def test_lines_at_guessed_descriptors_reach_nobody(judge_tampered, words):
    assert isinstance(judge_tampered(f"say({words}, 3, 64);"), Passed)


@pytest.mark.parametrize("words", [END, MACHINE, DONE, line("[1]"), line("\\\\xff")])
def test_lines_at_every_descriptor_are_noticed(judge_tampered, words):
    outcome = judge_tampered(f"say({words}, 3, 1 << 16);")
    assert (outcome.outcome, outcome.rule) == ("rejected", "tampered")


@pytest.mark.parametrize("last", [64, 1 << 16])
def test_a_forged_end_is_no_result(judge_tampered, last):
    outcome = judge_tampered(f"say({END}, 3, {last}); {LEAVE}")
    assert outcome.outcome in ("crashed", "rejected")


def test_a_flood_does_not_take_the_whole_deadline(judge_tampered):
    flood = (
        "static char junk[1 << 20]; for (auto& c : junk) c = 65;"
        "for (int fd = 3; fd < 1 << 16; fd++)"
        "  if (sys(1, fd, (long)junk, 1) == 1)"
        "    while (sys(1, fd, (long)junk, sizeof junk) > 0) {}"
    )
    outcome = judge_tampered(flood)
    assert outcome.outcome == "crashed"
    assert "MiB" in outcome.detail
    assert outcome.wall_s < 40


def test_a_call_that_launches_nothing_is_refused(judge_job):
    launch = SILU[SILU.index("  silu<<<") : SILU.index("  return cudaGetLastError")]
    outcome = judge_job(SILU.replace(launch, ""))
    assert (outcome.outcome, outcome.rule) == ("rejected", "no_kernel")


def before_launch(statement):
    return SILU.replace(LAUNCH, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "*static_cast<volatile short*>(out) = 0;",
        "volatile short x = *static_cast<short*>(in); (void)x;",
        "void* p; cudaMallocAsync(&p, 64, stream); *static_cast<volatile short*>(p) = 0;",
        "void* p; cudaGetSymbolAddress(&p, staged); *static_cast<volatile short*>(p) = 0;",
    ],
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
    baseline = "static char host[512]; cudaMemcpy(out, host, 512, cudaMemcpyHostToDevice);"
    outcome = judge_job(before_launch(COPY.format("", "")), before_launch(baseline))
    assert (outcome.outcome, outcome.rule) == ("rejected", "device_to_host")
