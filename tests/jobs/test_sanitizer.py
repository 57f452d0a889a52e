"""What compute-sanitizer prints, in the formats of its documentation, and what becomes of a tool that is not there."""

import os
import shutil
from dataclasses import replace

import pytest

from astra_kernels.jobs.correctness import Subject
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.programs import Workshop, wire_program
from astra_kernels.jobs.sanitizer import TOOLS, _calls, examine, find_tool, small_workloads
from astra_kernels.jobs.sanitizer_report import parse_report
from astra_kernels.jobs.spec import Limits, read_spec
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
    replace(workload("hidden-1", 5, 640), hidden=True),
    replace(workload("hidden-0", 2, 64), hidden=True),
)


def test_the_smallest_an_odd_and_a_hidden_workload_are_run():
    chosen = small_workloads(silu_spec(workloads=WORKLOADS))
    assert [w.uuid for w in chosen] == ["odd", "hidden-0"]
    chosen = small_workloads(silu_spec(workloads=(workload("tiny", 2, 64), *WORKLOADS)))
    assert [w.uuid for w in chosen] == ["tiny", "odd", "hidden-0"]
    chosen = small_workloads(silu_spec(workloads=WORKLOADS), frozenset({"hidden-0"}))
    assert [w.uuid for w in chosen] == ["odd", "hidden-1"]


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
    assert safety.failure is None


STAND_IN = """\
#!/bin/sh
# Takes the tool's place: runs the program, then prints a report that was prepared.
here=$(dirname "$0")
if [ "$1" = --help ]; then cat "$here/help"; exit 0; fi
tool=$2
said="$*"
while [ ! -x "$1" ]; do shift; done
if [ -f "$here/endless" ]; then sleep 60; fi
"$@" || exit 1
echo "options: $said"
cat "$here/$tool"
"""
HELP = "--padding --report-api-errors --racecheck-report --initcheck-address-space"
CLEAN = {
    "memcheck": "========= ERROR SUMMARY: 0 errors\n",
    "racecheck": "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n",
    "initcheck": "========= ERROR SUMMARY: 0 errors\n",
    "synccheck": "========= ERROR SUMMARY: 0 errors\n",
}


@pytest.fixture
def under_stand_in(tmp_path, toolchain, build_cache, monkeypatch):
    """Examines a real program on the simulated device; only the tool is a stand-in."""

    def examined(reports, *, baseline="none", help_text=HELP, endless=False):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in {**CLEAN, **reports, "help": help_text}.items():
            (folder / name).write_text(text)
        if endless:
            (folder / "endless").touch()
        script = folder / "compute-sanitizer"
        script.write_text(STAND_IN)
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        job = stage(tmp_path / "job", None, limits=Limits(safety_s=3 if endless else 60))
        shop = Workshop(job, toolchain, build_cache, 120)
        spec = read_spec(job)
        built = shop.build(spec.subject)
        subject = Subject(
            program=wire_program(built, spec.subject.entry_symbol),
            source_root=ROOT,
            cuda_runtime=str(shop.cuda_runtime),
            baseline=None,
        )
        no_library = Program(library=str(job / "reference.py"), symbol="silu_and_mul")
        others = {"none": None, "same": subject, "fails": replace(subject, program=no_library)}
        bench = Bench(spec, job)
        try:
            return examine(bench, subject, others[baseline])
        finally:
            bench.release(spec.workloads)
            bench.close()

    return examined


def test_four_clean_reports_hold(under_stand_in):
    safety = under_stand_in({})
    found = [(c.tool, c.verdict, c.detail) for c in safety.checks]
    assert found == [(tool, "held", "on odd") for tool in TOOLS]
    assert (safety.failure, safety.findings) == (None, [])
    assert safety.wall_s > 0


def test_an_option_that_the_version_lacks_is_left_out_and_said(under_stand_in):
    safety = under_stand_in({}, help_text=HELP.replace(" --initcheck-address-space", ""))
    details = {c.tool: c.detail for c in safety.checks}
    assert details["initcheck"] == "on odd; without --initcheck-address-space"
    assert details["memcheck"] == "on odd"


def test_an_error_is_charged_and_ends_the_examination(under_stand_in):
    safety = under_stand_in({"racecheck": RACE}, baseline="fails")
    assert [c.tool for c in safety.checks] == ["memcheck"]
    assert (safety.failure.kind, safety.failure.line) == ("shared_race", 41)
    assert safety.failure.detail.startswith("racecheck: Error: Race reported")
    assert any("racecheck warns" in finding for finding in safety.findings)


def test_what_the_baseline_does_too_is_a_finding(under_stand_in):
    safety = under_stand_in({"initcheck": UNINITIALISED}, baseline="same")
    assert safety.failure is None
    assert [c.verdict for c in safety.checks] == ["held"] * 4
    assert len(safety.findings) == 2
    assert all(f.startswith("initcheck, of the baseline too: ") for f in safety.findings)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("", "no summary"),
        ("========= Internal Sanitizer Error: it broke\n", "it broke"),
        ("========= ERROR SUMMARY: 3 errors\n", "counts 3 errors and shows none"),
    ],
)
def test_half_a_report_establishes_nothing(under_stand_in, report, said):
    safety = under_stand_in({"synccheck": report})
    assert [c.verdict for c in safety.checks] == ["held"] * 3 + ["not_established"]
    assert said in safety.checks[-1].detail
    assert safety.failure is None


def test_a_tool_that_is_too_slow_establishes_nothing(under_stand_in):
    safety = under_stand_in({}, endless=True)
    assert [c.verdict for c in safety.checks] == ["not_established"] * 4
    assert safety.failure is None
