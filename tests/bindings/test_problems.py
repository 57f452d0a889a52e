"""Operators of frameworks are judged, timed and improved like C launchers."""

import importlib.util
import json
import subprocess
import sys

import ml_dtypes
import pytest

from astra_kernels.agents.rewrites.exports import exported_function
from astra_kernels.agents.rewrites.program import Refused
from astra_kernels.agents.rewrites.reach import reach
from astra_kernels.agents.rules.coding import program_of
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.records.evaluation import Measured
from tests.bindings.conftest import PROBLEMS
from tests.tiers import with_sample

TVM_FFI = [
    pytest.param(name, marks=pytest.mark.tvm_ffi)
    for name in ("tvm_ffi_silu_and_mul", "tvm_ffi_rmsnorm")
]
NAMES = [*TVM_FFI, "torch_silu_and_mul", "torch_rmsnorm"]
EVERY_TIME = [
    TVM_FFI[0],
    pytest.param("tvm_ffi_rmsnorm", marks=[pytest.mark.tvm_ffi, pytest.mark.full]),
    "torch_silu_and_mul",
    pytest.param("torch_rmsnorm", marks=pytest.mark.full),
]
"""One of each binding; the others with --full."""
FILES = {
    "tvm_ffi_silu_and_mul": "silu_and_mul.cu",
    "tvm_ffi_rmsnorm": "rmsnorm.cu",
    "torch_silu_and_mul": "csrc/activation.cu",
    "torch_rmsnorm": "rmsnorm.cu",
}
CHANGED = {
    "tvm_ffi_silu_and_mul": ("blockDim = 256", "blockDim = 128"),
    "tvm_ffi_rmsnorm": (", 128, 0, stream", ", 256, 0, stream"),
    "torch_silu_and_mul": ("std::min(d, 256)", "std::min(d, 128)"),
    "torch_rmsnorm": ("<<<rows, 256,", "<<<rows, 512,"),
}
WRONG = {
    "tvm_ffi_silu_and_mul": ("(1.0f + __expf(-gate))", "(1.5f + __expf(-gate))"),
    "tvm_ffi_rmsnorm": ("/ hidden + eps", "/ hidden + 1.0f"),
    "torch_silu_and_mul": ("(1.0f + expf(", "(1.5f + expf("),
    "torch_rmsnorm": ("/ hidden + epsilon", "/ hidden + 1.0f"),
}


@pytest.mark.parametrize("name", EVERY_TIME)
def test_a_candidate_passes_on_public_and_hidden_workloads(judged, name):
    outcome = judged(PROBLEMS / name, [(FILES[name], *CHANGED[name])], hidden=5)
    assert outcome.outcome == "passed", outcome
    assert all(row.accuracy for row in outcome.workloads)
    assert outcome.geomean is not None
    # what belongs to the binding is no finding
    assert not [f for f in outcome.findings if "TVMFFI" in f or "stream" in f.lower()]


SUMS = "torch::empty({input.size(0)}, input.options().dtype(torch::kFloat32))"


@pytest.mark.parametrize(
    "code",
    with_sample((
        "torch::zeros({input.size(0)}, torch::dtype(torch::kFloat).device(torch::kCUDA))",
        "torch::empty_like(torch::empty({2, input.size(0)}, input.options().dtype(at::kFloat))).view({-1})",
        'input; TORCH_CHECK_EQ(input.sizes(), at::IntArrayRef({input.numel() / input.size(-1), input.stride(0)}));'
        "TORCH_CHECK(input.nbytes() == input.numel() * input.element_size() && input.device().is_cuda());"
        "TORCH_CHECK(at::cuda::getCurrentDeviceProperties()->multiProcessorCount > 1 && !at::Tensor().defined());"
        f"sums = {SUMS}",
    ), 2),
    ids=["zeros", "empty_like", "facts"],
)  # fmt: skip
def test_what_the_stand_in_offers_beside(judged, code):
    outcome = judged(PROBLEMS / "torch_rmsnorm", [("rmsnorm.cu", SUMS, code)])
    assert outcome.outcome == "passed", outcome


LIMITS = """\
template <typename T>
void same(float smallest, float largest, float step) {
  using limits = std::numeric_limits<T>;
  const bool is = static_cast<float>(limits::min()) == smallest && static_cast<float>(limits::max()) == largest &&
                  static_cast<float>(limits::lowest()) == -largest && static_cast<float>(limits::epsilon()) == step;
  const float nan = limits::quiet_NaN();
  TORCH_CHECK(is && nan != nan, "limits of a type of ", sizeof(T), " bytes, such as ", largest);
}

void all_limits() {
LIMITS
  TORCH_CHECK(std::isinf(static_cast<float>(std::numeric_limits<c10::Half>::infinity())), "infinity");
}
"""
PLAIN = """\
    float value = static_cast<float>(input[start + i]);
    if (residual"""
MIXED = """\
    float value = 0.0f;
    value += __ldg(&input[start + i]);
    value = (input[start + i] * 1.0 + (input[start + i] * int64_t{0} - 0)) + (value - value);
    if (residual"""


def test_narrow_floats_have_the_limits_of_ml_dtypes_and_what_kernels_do_with_them(judged):
    """Golden values from another library; mixed arithmetic and read-only loads in the kernel."""
    types = {"c10::Half": "float16", "c10::BFloat16": "bfloat16"}
    types |= {"c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2"}
    rows = []
    for name, dtype in types.items():
        of = ml_dtypes.finfo(dtype)
        values = ", ".join(repr(float(v)) for v in (of.smallest_normal, of.max, of.eps))
        rows.append(f"  same<{name}>({values});")
    whole = LIMITS.replace("LIMITS", "\n".join(rows))
    outcome = judged(
        PROBLEMS / "torch_rmsnorm",
        [
            ("rmsnorm.cu", "#include <string>\n", f"#include <cmath>\n#include <limits>\n#include <string>\n\n{whole}"),
            ("rmsnorm.cu", f"torch::Tensor sums = {SUMS};", f"all_limits();\n  torch::Tensor sums = {SUMS};"),
            ("rmsnorm.cu", PLAIN, MIXED),
        ],
    )  # fmt: skip
    assert outcome.outcome == "passed", outcome


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_candidate_passes_on_a_gpu(judged, name):
    if name.startswith("torch") and not importlib.util.find_spec("torch"):
        pytest.skip("torch is not installed")
    outcome = judged(PROBLEMS / name, [(FILES[name], *CHANGED[name])], device="cuda:0")
    assert outcome.outcome == "passed", outcome
    assert isinstance(outcome.geomean, Measured)
    wrong = judged(PROBLEMS / name, [(FILES[name], *WRONG[name])], device="cuda:0")
    assert wrong.outcome == "incorrect"


@pytest.mark.parametrize("name", EVERY_TIME)
def test_a_wrong_candidate_is_incorrect(judged, name):
    assert judged(PROBLEMS / name, [(FILES[name], *WRONG[name])]).outcome == "incorrect"


@pytest.mark.tvm_ffi
@pytest.mark.full
def test_an_operator_may_take_tensors_that_are_objects(judged):
    change = ("silu_and_mul(TensorView out", "silu_and_mul(tvm::ffi::Tensor out")
    outcome = judged(PROBLEMS / "tvm_ffi_silu_and_mul", [("silu_and_mul.cu", *change)])
    assert outcome.outcome == "passed", outcome


@pytest.mark.tvm_ffi
def test_work_on_another_stream_than_the_environments_is_refused(judged):
    change = ("config.stream = stream", "config.stream = nullptr")
    outcome = judged(PROBLEMS / "tvm_ffi_silu_and_mul", [("silu_and_mul.cu", *change)])
    assert (outcome.outcome, outcome.rule) == ("rejected", "stream")


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_rules_make_it_faster(tmp_path, name):
    run = tmp_path / "run"
    words = ("optimize", PROBLEMS / name, "--device", "sim:h200", "--no-memory", "--rounds", "1")
    done = subprocess.run(
        [sys.executable, "-m", "astra_kernels", *map(str, words), "--run", str(run), "--json"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    best = run / "best"
    assert (best / FILES[name]).read_text() != (
        PROBLEMS / name / "baseline" / FILES[name]
    ).read_text()
    json.loads(done.stdout)


@pytest.mark.parametrize("name", FILES)
def test_rewrites_find_the_function_and_its_kernels(name):
    problem = load_problem(PROBLEMS / name)
    found = reach(program_of(problem, problem.baseline))
    assert not isinstance(found, Refused), found
    assert found.kernels


@pytest.mark.parametrize(
    ("export", "function"),
    [
        ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);", "run"),
        ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, norms::rmsnorm);", "rmsnorm"),
        ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, (Norm<128, true>::launch));", "launch"),
        ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(run,\n    norms::rmsnorm<float>);", "rmsnorm"),
        ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(other, norms::rmsnorm);", "run"),
    ],
)
def test_the_function_behind_an_export(export, function):
    assert exported_function({"k.cu": f"void f();\n{export}\n"}, "run") == function


def test_a_file_that_only_exports_names_a_function_of_another():
    from astra_kernels.agents.rewrites.program import Program

    sources = {
        "binding.cu": "void norm(int);\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, norm);\n",
        "norm.cu": "__global__ void k(int);\n__global__ void k(int n) {}\nvoid norm(int n) { k<<<1, 1>>>(n); }\n",
    }
    found = reach(Program(sources=sources, entry="binding.cu::run"))
    assert not isinstance(found, Refused)
    assert [kernel.name for kernel in found.kernels] == ["k"]
