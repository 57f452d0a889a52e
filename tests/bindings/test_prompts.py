"""What models are told about operators of frameworks, and what is noticed in their answers."""

import pytest

from astra_kernels.agents.llm.briefing.problem import problem_text
from astra_kernels.agents.llm.entry_point import signature_text, trouble_with_entry_point
from astra_kernels.agents.llm.rendering import render
from astra_kernels.agents.source_view import source_view
from astra_kernels.importers.problem_dir import load_problem
from tests.bindings.conftest import PROBLEMS

SIGNATURES = {
    "tvm_ffi_silu_and_mul": "void silu_and_mul(TensorView out, TensorView x, bool enable_pdl)",
    "tvm_ffi_rmsnorm": "void rmsnorm(const tvm::ffi::TensorView x,",
    "torch_silu_and_mul": "void silu_and_mul(torch::Tensor & out, torch::Tensor & input)",
    "torch_rmsnorm": "void rms_norm(torch::Tensor & out,",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_operators_own_signature_is_shown(name):
    problem = load_problem(PROBLEMS / name)
    assert signature_text(problem).startswith(SIGNATURES[name])
    told = problem_text(problem)
    assert SIGNATURES[name] in told and 'extern "C"' not in told
    assert source_view(problem.baseline.sources, problem.spec.entry_file)[0].whole
    assert trouble_with_entry_point(problem, problem.baseline.sources) is None


def test_constants_are_told_as_such():
    told = problem_text(load_problem(PROBLEMS / "tvm_ffi_silu_and_mul"))
    assert "enable_pdl (bool, always False)" in told
    assert "residual (not given)" in problem_text(load_problem(PROBLEMS / "torch_rmsnorm"))


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("tvm_ffi_silu_and_mul", "TVM_FFI_DLL_EXPORT", "EXPORT", "The export is missing"),
        ("tvm_ffi_rmsnorm", "void rmsnorm(", "void rmsnorm2(", "is missing"),
        ("torch_rmsnorm", "double epsilon,", "float epsilon,", "other parameters"),
        ("torch_silu_and_mul", "void silu_and_mul(", "void silu(", "is missing"),
    ],
)
def test_changes_are_told(name, old, new, told):
    problem = load_problem(PROBLEMS / name)
    changed = {p: text.replace(old, new) for p, text in problem.baseline.sources.items()}
    assert changed != problem.baseline.sources
    assert told in trouble_with_entry_point(problem, changed)


@pytest.mark.parametrize("binding", ["c", "tvm-ffi", "torch"])
def test_rules_name_the_binding(binding):
    told = render("coding.system", binding=binding, entry_file="k.cu", candidates=1)
    assert ('extern "C"' in told) == (binding == "c")
    assert (f"framework ({binding})" in told) == (binding != "c")
