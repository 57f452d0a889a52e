"""What goes wrong between a problem and its operator is told in words, and never with a traceback."""

import json

import pytest

from astra_kernels.errors import ProblemError, SetupError
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.languages.bindings import tvm_ffi
from astra_kernels.languages.bindings.torch import torch_adapter
from tests.bindings.conftest import PROBLEMS

SILU, NORM = "silu_and_mul.cu", "rmsnorm.cu"
ACTIVATION = "csrc/activation.cu"


@pytest.mark.tvm_ffi
class TestTvmFfi:
    def test_too_few_arguments(self, copied, judged):
        outcome = judged(copied("tvm_ffi_silu_and_mul", arguments=["out", "x"]))
        assert outcome.outcome == "crashed"
        assert "the operator failed: TypeError: Mismatched number of arguments" in outcome.detail
        assert "Expected 3 but got 2" in outcome.detail

    def test_an_argument_of_another_kind(self, copied, judged):
        arguments = ["x", "weight", {"name": "residual", "ctype": "none"}, "out", "weight"]
        outcome = judged(copied("tvm_ffi_rmsnorm", arguments=arguments))
        assert outcome.outcome == "crashed"
        assert "Mismatched type on argument #4" in outcome.detail

    def test_another_element_type(self, copied, judged):
        root = copied("tvm_ffi_silu_and_mul", [("definition.json", '"float16"', '"float32"')])
        outcome = judged(root)
        assert outcome.outcome == "crashed"
        assert "silu_and_mul takes float16 and bfloat16, not float32" in outcome.detail

    def test_nothing_is_exported_by_that_name(self, copied, judged, first_message):
        root = copied("tvm_ffi_silu_and_mul", entry_point=f"{SILU}::silu")
        told = first_message(judged(root))
        assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu, ...)" in told

    def test_a_candidate_that_throws(self, judged):
        change = (SILU, "TVM_FFI_ICHECK_EQ(x.ndim(), 2)", "TVM_FFI_ICHECK_EQ(x.ndim(), 3)")
        outcome = judged(PROBLEMS / "tvm_ffi_silu_and_mul", [change])
        assert outcome.outcome == "crashed"
        assert "x must have two dimensions" in outcome.detail

    def test_a_candidate_that_looks_for_functions_by_name_is_rejected(self, judged):
        change = (
            SILU,
            "const int hidden",
            'tvm::ffi::Function::GetGlobal("ffi.Module.load_from_file.so");\n  const int hidden',
        )
        outcome = judged(PROBLEMS / "tvm_ffi_silu_and_mul", [change])
        assert (outcome.outcome, outcome.rule) == ("rejected", "imported-symbol")
        assert "TVMFFIFunctionGetGlobal" in outcome.detail

    def test_the_package_is_missing(self, judged, monkeypatch):
        monkeypatch.setattr(tvm_ffi.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(SetupError, match=r"pip install 'astra-kernels\[tvm-ffi\]'"):
            judged(PROBLEMS / "tvm_ffi_silu_and_mul")


class TestTorch:
    def test_too_few_arguments(self, copied, judged, first_message):
        told = first_message(judged(copied("torch_silu_and_mul", arguments=["out"])))
        assert told == "the operator takes another number of parameters than spec.arguments names"

    def test_an_argument_of_another_kind(self, copied, judged, first_message):
        root = copied("torch_silu_and_mul", arguments=["out", "tokens"])
        told = first_message(judged(root))
        assert told.startswith("a parameter of the operator has another type than spec.arguments")

    def test_another_element_type(self, copied, judged):
        root = copied("torch_silu_and_mul", [("definition.json", '"float16"', '"float64"')])
        outcome = judged(root)
        assert outcome.outcome == "crashed"
        assert "\"act_and_mul\" not implemented for 'Double'" in outcome.detail

    def test_no_function_of_that_name(self, copied, judged, first_message):
        root = copied("torch_silu_and_mul", entry_point=f"{ACTIVATION}::silu_and_mult")
        assert "the entry point silu_and_mult is not defined" in first_message(judged(root))

    @pytest.mark.parametrize(
        ("old", "new", "lacking"),
        [
            ("LAUNCH_ACTIVATION(serving", "input.sigmoid(); LAUNCH_ACTIVATION(serving", "sigmoid"),
            ("LAUNCH_ACTIVATION(serving", "at::mul_out(out, out, out); LAUNCH_ACTIVATION(serving", "mul_out"),
            ("LAUNCH_ACTIVATION(serving", "TORCH_PLEASE(1); LAUNCH_ACTIVATION(serving", "TORCH_PLEASE"),
            ("#include <torch/library.h>", "#include <torch/csrc/autograd/python_variable.h>", "torch/csrc/autograd"),
        ],
        ids=["member", "function", "macro", "header"],
    )  # fmt: skip
    def test_what_the_stand_in_lacks_is_named(self, judged, first_message, old, new, lacking):
        told = first_message(judged(PROBLEMS / "torch_silu_and_mul", [(ACTIVATION, old, new)]))
        assert told.startswith("the stand-in for torch on simulated devices lacks ")
        assert lacking in told and "a GPU with torch is needed" in told

    def test_other_mistakes_are_the_compilers_to_tell(self, judged, first_message):
        change = (ACTIVATION, "const int d = ", "const int e = ")
        told = first_message(judged(PROBLEMS / "torch_silu_and_mul", [change]))
        assert told == 'identifier "d" is undefined'

    def test_a_check_that_fails_gives_its_message(self, copied, judged):
        constant = {"name": "layout", "ctype": "string", "value": "columns"}
        arguments = ["out", "x", "weight", {"name": "r", "ctype": "none"}, "eps", constant]
        outcome = judged(copied("torch_rmsnorm", arguments=arguments))
        assert outcome.outcome == "crashed"
        assert outcome.detail == "the operator failed: rms_norm knows no layout 'columns'"

    def test_a_real_device_needs_torch(self, monkeypatch):
        monkeypatch.setattr(tvm_ffi.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(SetupError, match="needs the package torch"):
            torch_adapter(("k.cu", "k"), (), (), simulated=False)


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ({"name": "flag", "ctype": "bool", "value": 1}, "no bool"),
        ({"name": "n", "ctype": "int32", "value": 1 << 31}, "does not fit int32"),
        ({"name": "n", "ctype": "int64", "value": True}, "no int64"),
        ({"name": "n", "ctype": "string"}, "needs a `value`"),
        ({"name": "n", "ctype": "float64", "value": "1"}, "no float64"),
        ({"name": "hidden", "ctype": "int64", "value": 7}, "cannot be a constant"),
        ("stream", "takes the stream from its framework"),
    ],
)
def test_arguments_that_cannot_be(copied, argument, told):
    root = copied("torch_silu_and_mul", arguments=["out", "x", argument])
    with pytest.raises(ProblemError, match=told):
        load_problem(root)


def test_constants_work_for_c_launchers_too(tmp_path, judged):
    root = tmp_path / "scale"
    (root / "baseline").mkdir(parents=True)
    tensor = {"shape": ["n"], "dtype": "float32"}
    definition = {
        "name": "scale",
        "axes": {"n": {"type": "var", "domain": {"min": 1, "max": 1000}}},
        "inputs": {"x": tensor},
        "outputs": {"y": tensor},
    }
    workload = {"uuid": "one", "axes": {"n": 5}, "inputs": {"x": {"type": "random"}}}
    constants = [
        {"name": "factor", "ctype": "float32", "value": 3},
        {"name": "bias", "ctype": "none"},
    ]
    solution = {
        "name": "b",
        "definition": "scale",
        "spec": {
            "binding": "c",
            "entry_point": "k.cu::scale",
            "arguments": ["x", "y", "n", *constants, "stream"],
        },
        "sources": [{"path": "k.cu"}],
    }
    (root / "definition.json").write_text(json.dumps(definition))
    (root / "workload.jsonl").write_text(json.dumps(workload))
    (root / "reference.py").write_text("def run(x):\n    return x * 3\n")
    (root / "baseline/solution.json").write_text(json.dumps(solution))
    (root / "baseline/k.cu").write_text(
        "__global__ void k(const float* x, float* y, long n, float f, const float* bias) {\n"
        "  if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * f + (bias ? bias[0] : 0.0f);\n}\n"
        'extern "C" int scale(const float* x, float* y, long n, float f, const float* bias, cudaStream_t s) {\n'
        "  k<<<1, 32, 0, s>>>(x, y, n, f, bias);\n  return cudaGetLastError();\n}\n"
    )
    assert judged(root).outcome == "passed"
