"""Which reduction trees become shuffles, and what must hold of the block and of the array."""

import re

import pytest
from small_programs import host, refusal, text

from astra_kernels.agents.rewrites import (
    Applied,
    LaunchGeometry,
    ParameterPoint,
    Program,
    WarpShuffleReduction,
)

REWRITE = WarpShuffleReduction()
STEP = "sh[threadIdx.x] += sh[threadIdx.x + s];"
HEAD = "for (int s = blockDim.x / 2; s > 0; s >>= 1)"
TREE = f"{HEAD} {{ if (threadIdx.x < s) {STEP} __syncthreads(); }}"


def tree(
    loop: str = TREE,
    *,
    before: str = "sh[threadIdx.x] = in[threadIdx.x]; __syncthreads();",
    after: str = "out[threadIdx.x] = sh[0];",
    array: str = "__shared__ float sh[256];",
    block: str = "256",
    head: str = "",
) -> Program:
    """A program whose only kernel reduces `sh` with this loop."""
    kernel = f"""__global__ void kernel(float* out, const float* in, int n) {{
  {array}
  const int tid = threadIdx.x;
  {before}
  {loop}
  {after}
}}"""
    return host(kernel, f"kernel<<<rows, {block}, 1024, stream>>>(out, in, n);", head=head)


@pytest.mark.parametrize(
    "head",
    [
        HEAD,
        "for (unsigned int s = blockDim.x >> 1; s >= 1; s /= 2)",
        "for (int s = 128; s; s = s / 2)",
        "for (int s = kThreads / 2; s != 0; s = s >> 1)",
        "#pragma unroll\n  for (int s = blockDim.x / 2; s > 0; s >>= 1)",
    ],
)
@pytest.mark.parametrize(
    ("step", "combined"),
    [
        (STEP, "sh_value += sh_other;"),
        ("{ sh[tid] += sh[tid + s]; }", "sh_value += sh_other;"),
        ("sh[tid] = sh[tid] + sh[s + tid];", "sh_value = sh_value + sh_other;"),
        ("sh[tid] = fmaxf(sh[tid + s], sh[tid]);", "sh_value = fmaxf(sh_other, sh_value);"),
        ("sh[tid] = min(sh[tid], sh[tid + s]);", "sh_value = min(sh_value, sh_other);"),
    ],
)
def test_the_step_is_done_on_registers(head, step, combined):
    loop = f"{head} {{ if (threadIdx.x < s) {step} __syncthreads(); }}"
    changed = text(tree(loop, head="constexpr int kThreads = 256;"), REWRITE, shuffle="xor")
    assert changed.count(combined) == 2
    assert "float sh_value = sh[threadIdx.x];" in changed
    assert "s_warps" not in changed.replace("sh_warps", "")
    assert changed.count("__syncthreads();") == 3  # the one in front, and two of the exchange
    assert "sh_value = sh_warps[threadIdx.x % 8];" in changed
    assert "sh[0] = sh_value;" in changed
    assert changed.count("#pragma") == 2


def test_lanes_move_down_where_asked():
    changed = text(tree(), REWRITE, shuffle="down")
    assert changed.count("__shfl_down_sync(0xffffffffu, sh_value, s)") == 2


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"block": "n"}, "no constant"),
        ({"block": "std::min(n, 256)"}, "no constant"),
        ({"block": "96"}, "does not halve into warps"),
        ({"block": "32"}, "does not halve into warps"),
        ({"block": "dim3(16, 16)"}, "several axes"),
        ({"loop": TREE.replace("blockDim.x / 2", "64")}, "does not start at half of 256"),
        ({"loop": TREE.replace("blockDim.x / 2", "n")}, "does not start at half of 256"),
        ({"loop": TREE.replace("s > 0", "s > 32")}, "no reduction"),
        ({"loop": TREE.replace("s >>= 1", "s -= 1")}, "no reduction"),
        ({"loop": TREE.replace("s >>= 1", "s >>= 2")}, "no reduction"),
        ({"loop": TREE.replace("threadIdx.x < s", "threadIdx.x <= s")}, "threads below"),
        ({"loop": TREE.replace("threadIdx.x < s", "threadIdx.x % s == 0")}, "threads below"),
        ({"loop": TREE.replace("+= ", "-= ")}, "no sum, maximum or minimum"),
        ({"loop": TREE.replace("+= ", "= ")}, "no sum, maximum or minimum"),
        ({"loop": TREE.replace("+= ", "= 2 + ")}, "no sum, maximum or minimum"),
        ({"loop": TREE.replace("+= ", "+= 2 * ")}, "no sum, maximum or minimum"),
        ({"loop": TREE.replace("x + s]", "x + 2 * s]")}, "no sum, maximum or minimum"),
        ({"loop": TREE.replace(STEP, STEP + " else out[n] = 1;")}, "alternative"),
        ({"loop": TREE.replace(STEP, f"{{ {STEP} {STEP} }}")}, "twice"),
        ({"loop": TREE.replace(" __sync", " out[n] = 1; __sync")}, "one step and a barrier"),
        ({"array": "float sh[256];"}, "no array in shared memory"),
        ({"array": "__shared__ double2 sh[256];"}, "which no shuffle moves"),
        ({"array": "__shared__ volatile float sh[256];"}, "which no shuffle moves"),
        ({"after": "out[threadIdx.x] = sh[threadIdx.x];"}, "read after the reduction"),
        ({"after": "out[threadIdx.x] = sh[1];"}, "read after the reduction"),
        ({"after": "sh[0] += sh[2];"}, "read after the reduction"),
        ({"after": "float* all = sh; out[n] = all[3];"}, "has another name"),
        ({"after": "use(&sh[0]);", "head": "__device__ void use(float*);"}, "has another name"),
        (
            {"array": "extern __shared__ float sh[]; extern __shared__ int other[];"},
            "has another name",
        ),
        ({"before": "if (threadIdx.x > n) return; sh[tid] = 1; __syncthreads();"}, "may leave"),
        ({"loop": f"for (int r = 0; r < n; ++r) {{ {TREE} }}"}, "is not filled again"),
    ],
)
def test_refused(values, reason):
    refused = refusal(tree(**values), REWRITE, shuffle="xor")
    assert reason in refused.reason
    assert refused.line or reason == "no reduction"


@pytest.mark.parametrize(
    "values",
    [
        {"array": "extern __shared__ float sh[];"},
        {"array": "__shared__ int sh[256];"},
        {
            "array": "__shared__ float sh[512];",
            "before": "sh[tid + 256] = 1; sh[tid] = sh[tid + 256];",
        },
        {"before": "if (n == 0) return; sh[tid] = 1; __syncthreads();"},
        {"before": "if (blockIdx.x > n) return; sh[tid] = 1; __syncthreads();"},
        {"after": "if (threadIdx.x == 0) out[blockIdx.x] = sh[0] * rsqrtf(sh[0]);"},
        {"after": "sh[0] = 3;"},
        {"after": f"__syncthreads(); sh[tid] = in[n]; __syncthreads(); {TREE}"},
        {"loop": f"for (int r = 0; r < n; ++r) {{ sh[tid] = in[r]; __syncthreads(); {TREE} }}"},
    ],
)
def test_what_does_not_depend_on_the_tree_s_other_elements(values):
    assert "__shfl_xor_sync" in text(tree(**values), REWRITE, shuffle="xor")


def test_a_tree_whose_other_elements_are_reduced_again_stays():
    changed = text(tree(after=TREE), REWRITE, shuffle="xor")
    assert changed.index(TREE) < changed.index("__shfl_xor_sync")
    assert changed.count(TREE) == 1


def test_names_that_are_taken_are_not_used_again():
    changed = text(tree(before="float sh_value = 1; sh[tid] = sh_value;"), REWRITE, shuffle="xor")
    assert "float sh_value_ = sh[threadIdx.x];" in changed
    assert re.search(r"float sh_other_? = __shfl", changed)


def test_applying_it_again_finds_nothing_and_the_block_keeps_its_size():
    once = REWRITE.apply(tree(), ParameterPoint.of(shuffle="xor"))
    assert isinstance(once, Applied)
    again = tree().with_sources(once.sources)
    assert refusal(again, REWRITE, shuffle="xor")
    assert refusal(again, LaunchGeometry(), block=128)


def test_points():
    assert [str(p) for p in REWRITE.parameters(tree())] == ["shuffle=xor", "shuffle=down"]
    assert REWRITE.parameters(tree(block="n")) == ()


@pytest.mark.parametrize("point", [{"shuffle": "up"}, {}, {"shuffle": 1}])
def test_an_impossible_point_is_refused(point):
    assert "no such" in refusal(tree(), REWRITE, **point).reason
