"""Bounds that follow from the launches in reach, and launches that prove none."""

import pytest
from small_programs import device, host, refusal, text

from astra_kernels.agents.rewrites import (
    Applied,
    LaunchBounds,
    LaunchGeometry,
    ParameterPoint,
)

REWRITE = LaunchBounds()
ROWS = """
__global__ void kernel(float* out, const float* in, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = in[i];
}"""


def launched(block: str, *, before: str = "", head: str = "", kernel: str = ROWS):
    return host(kernel, f"{before} kernel<<<rows, {block}, 0, stream>>>(out, in, n);", head=head)


@pytest.mark.parametrize(
    ("head", "before", "block", "threads"),
    [
        ("", "", "256", 256),
        ("", "", "dim3(256)", 256),
        ("", "", "dim3(32, 4)", 128),
        ("", "dim3 block(16, 16);", "block", 256),
        ("", "const int t = 96;", "t", 96),
        ("", "int t = (n + 31) / 32 * 32; t = 5;", "std::min(t, 512)", 512),
        ("", "const int t = std::min((n + 31) / 32 * 32, 1024);", "t", 1024),
        ("", "const int t = n > 512 ? 256 : 64;", "t", 256),
        ("", "const int t = std::max(32, std::min(n, 128));", "t", 128),
        ("constexpr int kWarp = 32;", "", "4 * kWarp", 128),
        ("#define THREADS 192", "", "THREADS", 192),
        ("", "uint32_t t = std::min<uint32_t>(1024, n); ", "dim3(32, ceil_div(t, 32))", 1024),
        ("", "const unsigned t = 1024 / 3;", "static_cast<int>(t)", 341),
    ],
)
def test_the_bound_is_the_largest_block(head, before, block, threads):
    changed = text(launched(block, before=before, head=head), REWRITE, warps=0)
    assert f"__global__ void __launch_bounds__({threads}) kernel(" in changed


@pytest.mark.parametrize(
    ("before", "block", "reason"),
    [
        ("", "n", "no known limit"),
        ("int t = 64; t = n;", "t", "no known limit"),
        ("int t = 64; int& r = t; r = n;", "r", "no known limit"),
        ("int t = 64; int& r = t; r = n;", "t", "no known limit"),
        ("int t = 64; adjust(t);", "t", "no known limit"),
        ("int t; cudaOccupancyMaxPotentialBlockSize(&rows, &t, kernel);", "t", "no known limit"),
        ("", "std::max(n, 32)", "no known limit"),
        ("", "1024 - n", "no known limit"),
        ("", "n > 3 ? 64 : n", "no known limit"),
        ("dim3 block; block.x = n;", "block", "piece by piece"),
        ("", "dim3(64, n)", "no known limit"),
        ("", "2048", "is no block"),
    ],
)
def test_a_block_without_a_proven_limit_is_refused(before, block, reason):
    head = "void adjust(int& threads) { threads *= 2; }"
    refused = refusal(launched(block, before=before, head=head), REWRITE, warps=0)
    assert reason in refused.reason
    assert refused.line


def test_the_largest_of_several_launches_counts():
    launch = "kernel<<<rows, 64>>>(out, in, n); kernel<<<rows, 512>>>(out, in, n);"
    assert "__launch_bounds__(512)" in text(host(ROWS, launch), REWRITE, warps=0)
    launch = "kernel<<<rows, 64>>>(out, in, n); kernel<<<rows, n>>>(out, in, n);"
    assert "no known limit" in refusal(host(ROWS, launch), REWRITE, warps=0).reason


def test_a_launch_that_does_not_name_its_kernel_is_refused():
    launch = "auto f = choose(n); f<<<rows, 64>>>(out, in, n); kernel<<<rows, 64>>>(out, in, n);"
    assert "does not name its kernel" in refusal(host(ROWS, launch), REWRITE, warps=0).reason


@pytest.mark.parametrize(
    ("block", "warps", "bounds"),
    [
        (256, 64, "(256, 8)"),
        (256, 32, "(256, 4)"),
        (1024, 64, "(1024, 2)"),
        (32, 64, "(32, 32)"),
        (96, 64, "(96, 21)"),
    ],
)
def test_resident_warps_become_blocks(block, warps, bounds):
    assert f"__launch_bounds__{bounds} kernel(" in text(launched(block), REWRITE, warps=warps)


def test_a_block_larger_than_the_warps_asked_for_is_refused():
    assert "more than 16 warps" in refusal(launched("1024"), REWRITE, warps=16).reason


@pytest.mark.parametrize(
    ("present", "warps", "after"),
    [
        ("__launch_bounds__(256)", 32, "__launch_bounds__(256, 4)"),
        ("__launch_bounds__(256, 2)", 32, "__launch_bounds__(256, 4)"),
        ("__launch_bounds__(kThreads)", 64, "__launch_bounds__(kThreads, 8)"),
    ],
)
def test_bounds_that_are_there_keep_their_threads(present, warps, after):
    kernel = ROWS.replace("void kernel", f"void {present} kernel")
    program = launched("256", kernel=kernel, head="constexpr int kThreads = 256;")
    assert f"void {after} kernel(" in text(program, REWRITE, warps=warps)
    assert "has launch bounds already" in refusal(program, REWRITE, warps=0).reason


def test_applying_it_again_finds_nothing():
    program = launched("256")
    for warps in (0, 64):
        once = REWRITE.apply(program, ParameterPoint.of(warps=warps))
        assert isinstance(once, Applied)
        assert refusal(program.with_sources(once.sources), REWRITE, warps=warps)


def test_a_larger_block_takes_the_bound_along():
    once = REWRITE.apply(launched("256"), ParameterPoint.of(warps=0))
    assert isinstance(once, Applied)
    changed = text(launched("256").with_sources(once.sources), LaunchGeometry(), block=512)
    assert "__launch_bounds__(512) kernel(" in changed
    assert "<<<rows, 512, 0, stream>>>" in changed


def test_points_are_programs_that_differ():
    assert [str(p) for p in REWRITE.parameters(launched("1024"))] == [
        "warps=0",
        "warps=64",
        "warps=32",  # 48 warps are one block as well
    ]
    assert REWRITE.parameters(launched("n")) == ()


@pytest.mark.parametrize("point", [{"warps": 7}, {}, {"warps": "all"}])
def test_an_impossible_point_is_refused(point):
    assert "no such" in refusal(device("out[n] = a;"), REWRITE, **point).reason
