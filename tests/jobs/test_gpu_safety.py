"""Candidates whose outputs are right and whose accesses are not, under compute-sanitizer on a real GPU."""

import shutil

import pytest

from astra_kernels.records.evaluation import Passed

from .staging import SILU, workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not installed"
    ),
]

WORKLOADS = (
    workload("small", 4, 256, timed=False),
    workload("odd", 3, 129, timed=False),
)
ROW = "int64_t row = blockIdx.x;"
STORE = "out[row * hidden + i] ="


def edited(*changes, text=SILU):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.fixture
def on_gpu(judge_job):
    def judged(*sources, **changes):
        fields = {"device": "cuda:0", "workloads": WORKLOADS, "safety": True}
        return judge_job(*sources, **{**fields, **changes})

    return judged


def line_of(source, text):
    return next(i for i, line in enumerate(source.splitlines(), 1) if text in line)


def check(outcome, kind, source, text):
    assert outcome.outcome == "unsafe", outcome
    assert outcome.kind == kind, outcome
    assert "silu" in outcome.kernel
    assert (outcome.file, outcome.line) == ("silu.cu", line_of(source, text))
    assert outcome.safety_s > 0


def test_a_clean_kernel_passes_every_tool(on_gpu):
    outcome = on_gpu(SILU)
    assert isinstance(outcome, Passed)
    found = {c.tool: c.verdict for c in outcome.safety}
    assert found == dict.fromkeys(("memcheck", "racecheck", "initcheck", "synccheck"), "held"), (
        outcome.safety
    )
    assert 0 < outcome.safety_s < outcome.wall_s


def test_without_being_asked_no_tool_runs(on_gpu):
    outcome = on_gpu(SILU, safety=False)
    assert (outcome.safety, outcome.safety_s) == ((), 0)


def test_a_read_beyond_the_input_whose_value_is_not_used(on_gpu):
    reading = "int over = ((const volatile short*)in)[gridDim.x * 2 * hidden + i];"
    source = edited((STORE, f"{reading} (void)over;\n    {STORE}"))
    outcome = on_gpu(source)
    check(outcome, "global_bounds", source, "int over")
    assert outcome.thread is not None


def test_a_read_of_an_output_that_nobody_wrote(on_gpu):
    reading = "int old = ((volatile short*)out)[row * hidden + i];"
    source = edited((STORE, f"{reading} (void)old;\n    {STORE}"))
    check(on_gpu(source), "uninitialised_global_read", source, "int old")


def test_a_read_of_shared_memory_that_nobody_wrote(on_gpu):
    tools = {c.tool: c.detail for c in on_gpu(SILU).safety}
    if "without --initcheck-address-space" in tools["initcheck"]:
        pytest.skip("this version of initcheck looks at global memory only")
    source = edited(
        (ROW, f"__shared__ volatile float s[128];\n  {ROW}"),
        (STORE, f"float old = s[threadIdx.x];\n    (void)old;\n    {STORE}"),
    )
    check(on_gpu(source), "uninitialised_shared_read", source, "float old")


def test_a_race_in_shared_memory(on_gpu):
    source = edited(
        (
            ROW,
            "__shared__ volatile float s[128];\n"
            "  s[threadIdx.x] = 1;\n"
            "  float other = s[threadIdx.x ^ 64];\n"
            f"  (void)other;\n  {ROW}",
        )
    )
    outcome = on_gpu(source)
    assert (outcome.outcome, outcome.kind) == ("unsafe", "shared_race"), outcome
    assert outcome.line in (line_of(source, "s[threadIdx.x] = 1"), line_of(source, "float other"))


def test_a_barrier_that_some_threads_do_not_reach(on_gpu):
    source = edited((ROW, f"if (threadIdx.x % 32 < 16) __syncthreads();\n  {ROW}"))
    outcome = on_gpu(source)
    assert (outcome.outcome, outcome.kind) == ("unsafe", "divergent_barrier"), outcome


def test_what_the_baseline_does_too_is_not_charged(on_gpu):
    reading = "int old = ((volatile short*)out)[row * hidden + i];"
    source = edited((STORE, f"{reading} (void)old;\n    {STORE}"))
    outcome = on_gpu(source, source)
    assert isinstance(outcome, Passed)
    assert any("of the baseline too" in finding for finding in outcome.findings)
    alone = on_gpu(None, source)
    assert isinstance(alone, Passed)
    assert any("of the baseline" in finding for finding in alone.findings)
