"""What compute-sanitizer prints, in the formats of its documentation, and what becomes of a tool that is not there."""

import os
import shutil

import pytest

from astra_kernels.jobs.correctness import Subject
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.sanitizer import TOOLS, _calls, examine, find_tool, small_workloads
from astra_kernels.jobs.sanitizer_report import parse_report
from astra_kernels.jobs.wire import Program

from .staging import silu_spec, stage, workload

ROOT = "/tmp/build/3f"
SIGNATURE = "silu(__half *, const __half *, long)"

OUT_OF_BOUNDS = f"""\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 2 bytes
=========     at {SIGNATURE}+0x2b0 in {ROOT}/silu.cu:11
=========     by thread (127,0,0) in block (3,0,0)
=========     Address 0x7f2a08200800 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2a08200000 of size 2,048 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cudaLaunchKernel [0x6f7a4] in libcudart.so.13
=========
========= Invalid __shared__ read of size 16 bytes
=========     at load(const float4 *)+0x90 in /usr/include/vector.h:7
=========     by thread (1,2,0) in block (0,0,5)
=========     Address 0x401 is misaligned
=========         Device Frame: {SIGNATURE}+0x30 in {ROOT}/parts/load.cuh:44
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaFree.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: main [0xae61] in python3
=========
========= ERROR SUMMARY: 3 errors
"""
RACE = f"""\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at {SIGNATURE}+0x90 in {ROOT}/silu.cu:41
=========     and Read access at {SIGNATURE}+0x100 in {ROOT}/silu.cu:51 [508 hazards]
=========
========= Warning: Race reported between Read access at other(int *)+0x550 in {ROOT}/silu.cu:60
=========     and Write access at other(int *)+0x580 in {ROOT}/silu.cu:61 [64 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
UNINITIALISED = f"""\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at {SIGNATURE}+0x70 in {ROOT}/silu.cu:8
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= Uninitialized __shared__ memory read of size 4 bytes
=========     at {SIGNATURE}+0x80 in {ROOT}/silu.cu:9
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7c
=========
========= ERROR SUMMARY: 257 errors
========= ERROR SUMMARY: 237 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""
BARRIER = f"""\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at __syncthreads()+0x11f0 in /usr/local/cuda/include/sm_30_intrinsics.hpp:110
=========     by thread (32,0,0) in block (0,0,0)
=========         Device Frame: {SIGNATURE}+0xe40 in {ROOT}/silu.cu:60
=========
========= Barrier error detected. Invalid arguments
=========     at __cuda_sm70_warpsync+0x30
=========     by thread (0,0,0) in block (0,0,0)
=========         Device Frame:__syncwarp(unsigned int)+0xf0 in /usr/local/cuda/include/sm_30_intrinsics.hpp:110
=========         Device Frame:{SIGNATURE}+0x3c0 in {ROOT}/silu.cu:48
=========
========= Target application returned an error
========= ERROR SUMMARY: 64 errors
"""
OLD = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at 0x00000780 in /tmp/build/3f/silu.cu:42:silu(__half*)
=========     by thread (64,0,0) in block (2,0,0)
=========     Address 0x7f8a01200000 is out of bounds
========= ERROR SUMMARY: 1 error
"""


def places(report):
    return [(e.kind, e.kernel, e.file, e.line, e.thread, e.block) for e in report.errors]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            OUT_OF_BOUNDS,
            [
                ("global_bounds", SIGNATURE, "silu.cu", 11, (127, 0, 0), (3, 0, 0)),
                ("shared_misaligned", SIGNATURE, "parts/load.cuh", 44, (1, 2, 0), (0, 0, 5)),
            ],
        ),
        (
            RACE,
            [
                ("shared_race", SIGNATURE, "silu.cu", 41, None, None),
                ("shared_race", "other(int *)", "silu.cu", 60, None, None),
            ],
        ),
        (
            UNINITIALISED,
            [
                ("uninitialised_global_read", SIGNATURE, "silu.cu", 8, (31, 0, 0), (1, 0, 0)),
                ("uninitialised_shared_read", SIGNATURE, "silu.cu", 9, (0, 0, 0), (0, 0, 0)),
            ],
        ),
        (
            BARRIER,
            [
                ("divergent_barrier", SIGNATURE, "silu.cu", 60, (32, 0, 0), (0, 0, 0)),
                ("invalid_barrier", SIGNATURE, "silu.cu", 48, (0, 0, 0), (0, 0, 0)),
            ],
        ),
        (OLD, [("global_bounds", "silu(__half*)", "silu.cu", 42, (64, 0, 0), (2, 0, 0))]),
    ],
    ids=["memcheck", "racecheck", "initcheck", "synccheck", "older"],
)
def test_an_error_has_kind_kernel_place_and_thread(output, expected):
    report = parse_report("the program prints too\n" + output, ROOT)
    assert places(report) == expected
    assert report.complete


def test_the_detail_says_what_was_accessed():
    first = parse_report(OUT_OF_BOUNDS, ROOT).errors[0]
    assert first.detail.startswith(
        "Invalid __global__ write of size 2 bytes; Address 0x7f2a08200800"
    )
    assert "1 bytes after the nearest allocation" in first.detail
    assert "Host Frame" not in first.detail
    assert "Read access" in parse_report(RACE, ROOT).errors[0].detail


def test_warnings_are_not_errors():
    assert [e.severity for e in parse_report(RACE, ROOT).errors] == ["error", "warning"]


@pytest.mark.parametrize(
    "summary",
    ["ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"],
)
def test_a_clean_report(summary):
    report = parse_report(f"========= COMPUTE-SANITIZER\n========= {summary}\n")
    assert (report.errors, report.complete, report.total, report.failures) == ((), True, 0, ())


def test_errors_that_are_not_shown_still_count():
    assert parse_report(UNINITIALISED, ROOT).total == 257


@pytest.mark.parametrize(
    "said",
    [
        "Error: Target application terminated before first instrumented API call",
        "Internal Sanitizer Error: The Sanitizer encountered an error when initializing context. Please report this.",
        "Error: No attachable process found. compute-sanitizer timed-out.",
        'Device not supported. Please refer to the "Supported Devices" section of the documentation',
    ],
)
def test_a_tool_that_fails_reports_nothing_of_the_program(said):
    report = parse_report(f"========= COMPUTE-SANITIZER\n========= {said}\n=========\n")
    assert (report.errors, report.complete) == ((), False)
    assert report.failures == (said,)


def test_other_output_is_no_report():
    report = parse_report("Invalid __global__ read of size 4 bytes\nERROR SUMMARY: 0 errors\n")
    assert (report.errors, report.complete) == ((), False)


WORKLOADS = (
    workload("large", 64, 4096),
    workload("small", 4, 256),
    workload("odd", 3, 129),
    workload("empty", 0, 256),
    workload("hidden-1", 5, 640),
    workload("hidden-0", 2, 64),
)


def test_the_smallest_an_odd_and_a_hidden_workload_are_run():
    chosen = small_workloads(silu_spec(workloads=WORKLOADS))
    assert [w.uuid for w in chosen] == ["odd", "hidden-0"]
    chosen = small_workloads(silu_spec(workloads=(workload("tiny", 2, 64), *WORKLOADS)))
    assert [w.uuid for w in chosen] == ["tiny", "odd", "hidden-0"]


@pytest.fixture
def bench(tmp_path):
    spec = {"device": "cuda:0", "workloads": WORKLOADS[:3]}
    bench = Bench(silu_spec(**spec), stage(tmp_path / "job", **spec))
    yield bench
    bench.release(bench.spec.workloads)
    bench.close()


def test_outputs_are_not_written_before_the_call(bench):
    with _calls(bench, bench.spec.workloads[1:2]) as (call,):
        assert call.separate
        stored = {b.name: (b.stored, b.size) for b in call.buffers}
        assert stored == {"input": (4 * 512 * 2, 4 * 512 * 2), "out": (0, 4 * 256 * 2)}
        assert [os.fstat(fd).st_size for fd in call.result_fds] == [0]


def test_a_tool_that_is_not_installed_establishes_nothing(bench, monkeypatch):
    if shutil.which("compute-sanitizer"):
        monkeypatch.setenv("PATH", "/nowhere")
    assert find_tool() is None
    program = Program(library="/nowhere.so", symbol="silu_and_mul")
    subject = Subject(program=program, cuda_runtime="", source_root="", baseline=None)
    safety = examine(bench, subject, None)
    assert [(c.tool, c.verdict) for c in safety.checks] == [(t, "not_established") for t in TOOLS]
    assert all("not installed" in c.detail for c in safety.checks)
    assert safety.unsafe is None
